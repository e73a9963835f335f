//! Addresses looked up together have the answers that each has alone.

use crate::ImageSymbols;
use crate::bulk::{AddressAnswer, AddressTable, ChainCall, CountedAddress, look_up, look_up_within};
use crate::symcache::{
    CodeCall, CodeLookup, CodeOwner, CodePlace, CodeScope, NameSource, ObjectHeader, SymCache, Writer,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_model::{DebugId, Quality, RelativeAddress};
use unslide_testkit::reports::ARM64;

const EXTENT: u32 = 0x2000;

/// A range: how far its start is behind the last one, its function, the functions inlined there, and a line.
type MadeRange = (u32, Option<u8>, Vec<u8>, u32);

fn symcache(id: u8, made: &[MadeRange]) -> SymCache {
    let mut writer = Writer::new(1 << 20);
    let path = writer.add_path("/src/cart.cpp").unwrap();
    let mut ranges = Vec::new();
    let mut start = 0;
    for (distance, function, inlined, line) in made {
        start += distance;
        let place = function.map(|name| {
            let function = writer.add_function(&format!("_ZN4Shop2f{}Ev", name % 10), Some(path)).unwrap();
            let owner = CodeOwner {
                function,
                start: name.is_multiple_of(2).then_some(start),
                source: if name % 3 == 0 { NameSource::Symtab } else { NameSource::Dwarf },
                approximate: name % 5 == 0,
            };
            let mut scope = writer.add_scope(CodeScope::Owner(owner)).unwrap();
            for name in inlined {
                let caller = writer.add_call(CodePlace { scope, line: line + 1, column: 3 }).unwrap();
                let function = writer.add_function(&format!("inlined{}", name % 7), None).unwrap();
                scope = writer.add_scope(CodeScope::Inlined { function, caller }).unwrap();
            }
            CodePlace { scope, line: *line, column: 1 }
        });
        ranges.push((start, place));
    }
    let header = ObjectHeader {
        debug_id: DebugId([id; 16]),
        cpu: ARM64,
        text_address: 0x1_0000_0000,
        text_size: u64::from(EXTENT),
        extent: EXTENT,
        quality: Quality::DwarfSymtab,
    };
    SymCache::parse(writer.into_bytes(&header, ranges.into_iter().collect()).unwrap()).unwrap()
}

fn made_ranges() -> impl Strategy<Value = Vec<MadeRange>> {
    let range =
        (1_u32..200, prop::option::of(any::<u8>()), prop::collection::vec(any::<u8>(), 0..4), 0_u32..50);
    prop::collection::vec(range, 0..60)
}

fn call<'s>(table: &AddressTable<'s>, call: &ChainCall) -> CodeCall<'s> {
    let function = table.find_function(call).unwrap();
    let text = |number| table.find_string(number).unwrap();
    CodeCall {
        function: text(function.name),
        raw: function.raw.map(text),
        file: function.file.map(text),
        line: call.line,
        column: call.column,
        inlined: call.inlined,
        no_return: None,
    }
}

/// Each row says what a look-up of its address alone does.
fn check(table: &AddressTable<'_>, symcaches: &[SymCache]) -> Result<(), TestCaseError> {
    for row in table.rows() {
        let Some(symcache) = symcaches.get(row.at.image as usize) else {
            prop_assert_eq!(row.answer, AddressAnswer::NoSymbols);
            continue;
        };
        match symcache.lookup(row.at.address) {
            CodeLookup::Gap => prop_assert_eq!(row.answer, AddressAnswer::Gap),
            CodeLookup::Outside => prop_assert_eq!(row.answer, AddressAnswer::Outside),
            CodeLookup::Found(alone) => {
                let chain = table.find_chain(&row).unwrap();
                let calls: Vec<CodeCall<'_>> = table.calls_of(chain).iter().map(|c| call(table, c)).collect();
                prop_assert_eq!(calls, alone.calls().collect::<Vec<_>>());
                let symbol = chain.symbol.map(|number| table.find_string(number).unwrap());
                prop_assert_eq!(
                    (chain.source, chain.approximate, symbol, chain.symbol_address),
                    (alone.source, alone.approximate, alone.symbol, alone.symbol_address)
                );
            }
        }
    }
    Ok(())
}

fn bulk<'s>(found: &'s [(DebugId, ImageSymbols)], addresses: Vec<CountedAddress>) -> AddressTable<'s> {
    let images: Vec<Option<DebugId>> = found.iter().map(|(id, _)| Some(*id)).chain([None]).collect();
    look_up(&images, addresses, &|id| found.iter().find(|(known, _)| known == id).map(|(_, symbols)| symbols))
}

fn found(symcaches: &[SymCache]) -> Vec<(DebugId, ImageSymbols)> {
    symcaches.iter().map(|s| (s.debug_id(), ImageSymbols::from_symcache(Arc::new(s.clone())))).collect()
}

proptest! {
    #[test]
    fn bulk_answers_are_those_of_single_look_ups(
        first in made_ranges(),
        second in made_ranges(),
        addresses in prop::collection::vec((0_u32..4, 0_u64..0x2100, 0_u64..5), 0..300),
    ) {
        let symcaches = [symcache(1, &first), symcache(2, &second)];
        let addresses: Vec<CountedAddress> = addresses
            .into_iter()
            .map(|(image, address, count)| CountedAddress { image, address: RelativeAddress(address), count })
            .collect();
        let mut counts = BTreeMap::new();
        for at in &addresses {
            *counts.entry((at.image, at.address)).or_insert(0) += at.count;
        }
        let found = found(&symcaches);
        let table = bulk(&found, addresses);
        let rows: Vec<_> = table.rows().map(|row| ((row.at.image, row.at.address), row.at.count)).collect();
        prop_assert_eq!(rows, counts.into_iter().collect::<Vec<_>>());
        check(&table, &symcaches)?;
        for row in table.rows() {
            prop_assert_eq!(table.find_row(row.at.image, row.at.address), Some(row));
        }
    }

    #[test]
    fn a_damaged_symcache_ends_no_walk(
        made in made_ranges(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut bytes = symcache(1, &made).bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(symcache) = SymCache::parse(bytes) {
            let id = symcache.debug_id();
            let found = [(id, ImageSymbols::from_symcache(Arc::new(symcache)))];
            let all = (0..0x2100).map(|address| CountedAddress { image: 0, address: RelativeAddress(address), count: 1 });
            prop_assert_eq!(bulk(&found, all.collect()).rows().len(), 0x2100);
        }
    }
}

#[test]
fn addresses_beyond_the_most_calls_are_counted() {
    let made: Vec<MadeRange> = (0..100).map(|n| (16, Some(n), Vec::new(), 1)).collect();
    let found = found(&[symcache(1, &made)]);
    // Two addresses of each range, which has one call.
    let addresses =
        (0..200_u64).map(|n| CountedAddress { image: 0, address: RelativeAddress(16 + n * 8), count: 1 });
    let symbols = |id: &DebugId| found.iter().find(|(known, _)| known == id).map(|(_, symbols)| symbols);
    let table = look_up_within(30, &[Some(found[0].0)], addresses.collect(), &symbols);
    assert_eq!((table.calls.len(), table.rows().len(), table.left_out()), (30, 200, 140));
}

#[test]
fn each_function_and_each_text_is_there_once() {
    let made: Vec<MadeRange> = (0..100).map(|n| (16, Some(n % 4), vec![n % 3, 1], u32::from(n))).collect();
    let symcaches = [symcache(1, &made)];
    let found = found(&symcaches);
    let all = (0..u64::from(EXTENT)).map(|address| CountedAddress {
        image: 0,
        address: RelativeAddress(address),
        count: 1,
    });
    let table = bulk(&found, all.collect());
    let mut functions = table.functions.clone();
    functions.sort_by_key(|f| (f.name, f.raw, f.file));
    functions.dedup();
    assert_eq!((table.functions.len(), functions.len()), (7, 7));
    let mut strings: Vec<&[u8]> = table.strings.iter().map(|text| text.raw()).collect();
    strings.sort_unstable();
    strings.dedup();
    assert_eq!(strings.len(), table.strings.len());
    assert_eq!(table.chains.len(), 100, "a chain for each range and not for each address");
}
