//! Prefetching. A look-up reads about five places, each known only from the one before, and waits for memory at
//! each. For a whole report the waits overlap, because each step starts for all look-ups before the next step.

use super::view::{SectionRange, View};
use super::{FUNCTION_SIZE, PLACE_SIZE, SCOPE_SIZE, SymCache};
use unslide_model::RelativeAddress;

/// Calls of a chain that are prefetched. Most chains are shorter.
const PREFETCHED_CALLS_LIMIT: usize = 4;
/// Bytes that the CPU fetches at once.
const CACHE_LINE: usize = 64;

/// An offset from `__TEXT`, or the number of a record, with its symcache.
type Entry<'s> = (&'s SymCache, u32);

/// Makes the CPU prefetch the data of these look-ups, with the texts of their functions. It changes no answer.
pub(crate) fn prefetch_lookups<'s>(lookups: impl Iterator<Item = (&'s SymCache, RelativeAddress)>) {
    if cfg!(not(target_arch = "x86_64")) {
        // Stable Rust has no prefetch call for other CPUs.
        return;
    }
    let offset =
        |(symcache, address): (&'s SymCache, _)| Some((symcache, symcache.view().to_offset(address)?));
    let offsets: Vec<Entry<'_>> = lookups.filter_map(offset).collect();
    prefetch_ranges(&offsets);
    let scope = |(symcache, offset): &Entry<'s>| {
        let view = symcache.view();
        Some((*symcache, view.place_of(view.find_range(*offset)?)?.scope))
    };
    let mut scopes: Vec<Entry<'_>> = offsets.iter().filter_map(scope).collect();
    for _ in 0..PREFETCHED_CALLS_LIMIT {
        let callers = prefetch_functions(&scopes);
        let scope = |(symcache, call): &Entry<'s>| Some((*symcache, symcache.view().call_at(*call)?.scope));
        scopes.clear();
        scopes.extend(callers.iter().filter_map(scope));
    }
}

/// Prefetches the ranges around these offsets.
fn prefetch_ranges(offsets: &[Entry<'_>]) {
    for (symcache, offset) in offsets {
        let view = symcache.view();
        view.prefetch_record::<4>(view.layout.buckets, view.bucket_index(*offset));
    }
    for (symcache, offset) in offsets {
        let view = symcache.view();
        if let Some(first) = view.read_number(view.layout.buckets, view.bucket_index(*offset)) {
            let first = first as usize;
            view.prefetch_record::<4>(view.layout.starts, first);
            view.prefetch_record::<4>(view.layout.starts, first + CACHE_LINE / 8);
            view.prefetch_record::<PLACE_SIZE>(view.layout.places, first + CACHE_LINE / PLACE_SIZE / 2);
        }
    }
}

/// Prefetches scopes, their functions and those functions' texts. Returns the calls at which they were inlined,
/// which are prefetched too.
fn prefetch_functions<'s>(scopes: &[Entry<'s>]) -> Vec<Entry<'s>> {
    for (symcache, scope) in scopes {
        let view = symcache.view();
        view.prefetch_record::<SCOPE_SIZE>(view.layout.scopes, *scope as usize);
    }
    let mut functions: Vec<Entry<'_>> = Vec::with_capacity(scopes.len());
    let mut callers = Vec::with_capacity(scopes.len());
    for (symcache, scope) in scopes {
        let view = symcache.view();
        let Some(scope) = view.read_scope(*scope) else { continue };
        view.prefetch_record::<FUNCTION_SIZE>(view.layout.functions, scope.function as usize);
        functions.push((*symcache, scope.function));
        if let Some(caller) = scope.caller {
            view.prefetch_record::<PLACE_SIZE>(view.layout.calls, caller as usize);
            callers.push((*symcache, caller));
        }
    }
    for (symcache, function) in functions {
        let view = symcache.view();
        for text in view.read_function(function).into_iter().flatten() {
            view.prefetch_record::<1>(view.layout.texts, text as usize);
            view.prefetch_record::<1>(view.layout.texts, text as usize + CACHE_LINE);
        }
    }
    callers
}

impl View<'_> {
    /// Prefetches a record of this size, if it exists.
    #[inline(always)]
    fn prefetch_record<const SIZE: usize>(&self, section: SectionRange, index: usize) {
        if let Some(first) = self.bytes.get(section.at + index * SIZE) {
            prefetch_line(first);
        }
    }
}

/// Prefetches the cache line of a byte.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the compiler has no safe call for it"))]
fn prefetch_line(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE; nothing is read, and the address is that of a byte.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageSymbols;
    use crate::tests::{APP, symbols};
    use proptest::prelude::*;
    use unslide_model::Quality;
    use unslide_testkit::reports::ARM64;

    proptest! {
        /// Proves: bounded-input
        #[test]
        fn any_address_of_a_damaged_symcache_is_prefetched(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
            addresses in prop::collection::vec(prop_oneof![0_u64..0x2000, any::<u64>()], 20),
        ) {
            let ImageSymbols::Found { symcache, .. } = symbols(APP, ARM64, Quality::DwarfSymtab) else {
                return Err(TestCaseError::fail("no symcache"));
            };
            let mut bytes = symcache.bytes().to_vec();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Ok(symcache) = SymCache::parse(bytes) {
                prefetch_lookups(addresses.into_iter().map(|address| (&symcache, RelativeAddress(address))));
            }
        }
    }
}
