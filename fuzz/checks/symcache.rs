//! Any bytes as a symcache: lookups end, without a panic, whatever the tables say.

use unslide_model::RelativeAddress;
use unslide_report::Text;
use unslide_symbolicate::symcache::{CodeLookup, MAX_CALLS, SymCache, SymCacheError};

pub fn check(data: &[u8]) {
    let mut bytes = data.to_vec();
    // Most damaged headers only give another length: fit the bytes to it.
    if let Err(SymCacheError::Length { expected, .. }) = SymCache::parse(data.to_vec()) {
        match usize::try_from(expected).ok().filter(|len| *len <= 1 << 20) {
            Some(len) => bytes.resize(len, 0),
            None => return,
        }
    }
    let Ok(cache) = SymCache::parse(bytes) else { return };
    let _ = cache.verify_checksum();
    for address in (0..0x1_0000).step_by(61).chain([u64::from(u32::MAX), u64::MAX]) {
        if let Some(class) = cache.class_symbol(RelativeAddress(address)) {
            let _ = (class.symbol.decode(), class.name.decode());
        }
        if let CodeLookup::Found(answer) = cache.lookup(RelativeAddress(address)) {
            assert!(answer.calls().count() <= MAX_CALLS);
            for call in answer.calls() {
                let _ = (call.function.decode(), call.file.map(Text::decode));
            }
        }
    }
}
