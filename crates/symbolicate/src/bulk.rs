//! Looks up many addresses at once: each address once, and each function appears once.
//!
//! The addresses of an image are sorted and looked up in one walk over its symcache. The results are tables
//! that refer to each other by number, so that an address costs a number and no text. Addresses of one range
//! are answered together, each range is read once, and so are a function's texts.

use crate::symbols::ImageSymbols;
use crate::symcache::{CallRecord, FunctionTexts, NameSource, RangeWalk, SymCache, WalkedPlace};
use std::collections::HashMap;
use std::iter::repeat_n;
use std::ops::Range;
use unslide_model::{DebugId, RelativeAddress};
use unslide_report::Text;

/// The most calls of a table, about 400 MB. Addresses beyond that are left out.
const MOST_CALLS: usize = 1 << 24;

/// An address to look up, and its number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedAddress {
    /// The position of its image in the list of debug ids.
    pub image: u32,
    /// Its offset from the image's start. For a return address, the offset of the byte before it.
    pub address: RelativeAddress,
    /// Number of occurrences.
    pub count: u64,
}

/// An address and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRow {
    /// The address, with the summed count of its duplicates.
    pub at: CountedAddress,
    /// The answer for it.
    pub answer: AddressAnswer,
}

/// The answer for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAnswer {
    /// The chain of calls with this number.
    Chain(u32),
    /// Inside the image, but in no named function.
    Gap,
    /// Past the end of the image.
    Outside,
    /// Not known: the image has no symbols.
    NoSymbols,
    /// Left out: the table has reached its limit of calls.
    LeftOut,
}

/// The calls at a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChain {
    /// The calls by number, the innermost first; at least one.
    pub calls: Range<u32>,
    /// Source of the name of the function that owns the code.
    pub source: NameSource,
    /// True if the function's extent is unknown, so that the name is only the nearest one.
    pub approximate: bool,
    /// The string with the linkage name of the function that owns the code, if it has a name.
    pub symbol: Option<u32>,
    /// The start of that function, if known.
    pub symbol_address: Option<RelativeAddress>,
}

/// One call of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainCall {
    /// The number of its function.
    pub function: u32,
    /// Line, from 1; `None` if the compiler gave none.
    pub line: Option<u32>,
    /// Column, from 1; `None` if the compiler gave none.
    pub column: Option<u32>,
    /// True for a function that was inlined into the next call.
    pub inlined: bool,
}

/// A function, as the numbers of its strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainFunction {
    /// Its demangled name; empty if the debug information gives none.
    pub name: u32,
    /// Its linkage name, only if it differs.
    pub raw: Option<u32>,
    /// The path of its source file.
    pub file: Option<u32>,
}

/// The answers of a set of addresses.
#[derive(Clone, Debug, Default)]
pub struct AddressTable<'s> {
    /// The distinct addresses, by image and address.
    addresses: Vec<CountedAddress>,
    /// The answer for each address, in the same order.
    answers: Vec<AddressAnswer>,
    /// The chains that answers refer to. Addresses of one range share a chain.
    pub chains: Vec<CallChain>,
    /// The calls that chains refer to.
    pub calls: Vec<ChainCall>,
    /// The functions that calls refer to, each once.
    pub functions: Vec<ChainFunction>,
    /// The strings that functions and chains refer to, each once per image.
    pub strings: Vec<Text<'s>>,
}

/// Looks up all addresses, each once. `images` are the debug ids that they refer to by position.
#[must_use]
pub fn look_up<'s>(
    images: &[Option<DebugId>],
    addresses: Vec<CountedAddress>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> AddressTable<'s> {
    look_up_within(MOST_CALLS, images, addresses, symbols)
}

/// Does the same as [`look_up`], with a table of about `most_calls` calls at most.
pub(crate) fn look_up_within<'s>(
    most_calls: usize,
    images: &[Option<DebugId>],
    mut addresses: Vec<CountedAddress>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> AddressTable<'s> {
    // A sampler sends sorted addresses, which need only this one pass.
    if !addresses.is_sorted_by(|a, b| (a.image, a.address) < (b.image, b.address)) {
        addresses.sort_unstable();
        addresses.dedup_by(|next, kept| {
            let is_same = (next.image, next.address) == (kept.image, kept.address);
            kept.count = kept.count.saturating_add(if is_same { next.count } else { 0 });
            is_same
        });
    }
    let mut table = AddressTable { answers: Vec::with_capacity(addresses.len()), ..AddressTable::default() };
    for of_image in addresses.chunk_by(|a, b| a.image == b.image) {
        let id = of_image.first().and_then(|first| images.get(first.image as usize)?.as_ref());
        match id.and_then(symbols) {
            Some(ImageSymbols::Found { symcache, .. }) => {
                Walker::new(&mut table, symcache, most_calls).walk_addresses(of_image);
            }
            _ => table.answers.extend(repeat_n(AddressAnswer::NoSymbols, of_image.len())),
        }
    }
    AddressTable { addresses, ..table }
}

impl<'s> AddressTable<'s> {
    /// Returns one row for each distinct address, by image and address.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = AddressRow> {
        self.addresses.iter().zip(&self.answers).map(|(at, answer)| AddressRow { at: *at, answer: *answer })
    }

    /// Returns the row of an address.
    #[must_use]
    pub fn find_row(&self, image: u32, address: RelativeAddress) -> Option<AddressRow> {
        let at = self.addresses.binary_search_by_key(&(image, address), |at| (at.image, at.address)).ok()?;
        Some(AddressRow { at: *self.addresses.get(at)?, answer: *self.answers.get(at)? })
    }

    /// Returns the number of addresses that were left out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.answers.iter().filter(|answer| **answer == AddressAnswer::LeftOut).count() as u64
    }

    /// Returns the chain of a row.
    #[must_use]
    pub fn find_chain(&self, row: &AddressRow) -> Option<&CallChain> {
        match row.answer {
            AddressAnswer::Chain(chain) => self.chains.get(chain as usize),
            AddressAnswer::Gap
            | AddressAnswer::Outside
            | AddressAnswer::NoSymbols
            | AddressAnswer::LeftOut => None,
        }
    }

    /// Returns the calls of a chain, the innermost first.
    #[must_use]
    pub fn calls_of(&self, chain: &CallChain) -> &[ChainCall] {
        self.calls.get(chain.calls.start as usize..chain.calls.end as usize).unwrap_or_default()
    }

    /// Returns the function of a call.
    #[must_use]
    pub fn find_function(&self, call: &ChainCall) -> Option<&ChainFunction> {
        self.functions.get(call.function as usize)
    }

    /// Returns the string with a number.
    #[must_use]
    pub fn find_string(&self, number: u32) -> Option<Text<'s>> {
        self.strings.get(number as usize).copied()
    }
}

/// Fills a table with the addresses of one image.
struct Walker<'t, 's> {
    table: &'t mut AddressTable<'s>,
    most_calls: usize,
    walk: RangeWalk<'s>,
    /// For each function of the symcache, its number in the table plus one; 0 if it has none yet.
    functions: Vec<u32>,
    /// Numbers of strings by their position: a symcache holds each text once.
    strings: HashMap<usize, u32>,
    /// The calls of the current range.
    records: Vec<CallRecord>,
}

impl<'t, 's> Walker<'t, 's> {
    fn new(table: &'t mut AddressTable<'s>, symcache: &'s SymCache, most_calls: usize) -> Walker<'t, 's> {
        let walk = symcache.walk_ranges();
        let functions = vec![0; walk.function_count()];
        Walker { table, most_calls, functions, walk, strings: HashMap::new(), records: Vec::new() }
    }

    fn walk_addresses(mut self, addresses: &[CountedAddress]) {
        let mut rest = addresses;
        while let Some((first, others)) = rest.split_first() {
            let (place, end) = self.walk.find_range(first.address);
            let answer = match place {
                WalkedPlace::Outside => AddressAnswer::Outside,
                WalkedPlace::Before => AddressAnswer::Gap,
                WalkedPlace::Range(range) => self.add_chain(range),
            };
            let same = others.iter().take_while(|at| at.address < end).count();
            self.table.answers.extend(repeat_n(answer, 1 + same));
            rest = others.get(same..).unwrap_or_default();
        }
    }

    fn add_chain(&mut self, range: usize) -> AddressAnswer {
        let Some(owner) = self.walk.read_chain(range, &mut self.records) else { return AddressAnswer::Gap };
        if self.table.calls.len() >= self.most_calls {
            return AddressAnswer::LeftOut;
        }
        let function = self.add_function(owner.function);
        let function = function.and_then(|number| self.table.functions.get(number as usize).copied());
        let Some(function) = function else { return AddressAnswer::Gap };
        let start = to_number(self.table.calls.len());
        for at in 0..self.records.len() {
            let record = self.records[at];
            let Some(function) = self.add_function(record.function) else { break };
            let call =
                ChainCall { function, line: record.line, column: record.column, inlined: record.inlined };
            self.table.calls.push(call);
        }
        let symbol = function.raw.unwrap_or(function.name);
        let is_named = self.table.find_string(symbol).is_some_and(|text| !text.is_empty());
        self.table.chains.push(CallChain {
            calls: start..to_number(self.table.calls.len()),
            source: owner.source,
            approximate: owner.approximate,
            symbol: is_named.then_some(symbol),
            symbol_address: owner.symbol_address,
        });
        AddressAnswer::Chain(to_number(self.table.chains.len() - 1))
    }

    fn add_function(&mut self, index: u32) -> Option<u32> {
        let known = *self.functions.get(index as usize)?;
        if let Some(known) = known.checked_sub(1) {
            return Some(known);
        }
        let FunctionTexts { name, raw, file } = self.walk.function_texts(index)?;
        let function = ChainFunction {
            name: self.add_string(name),
            raw: raw.map(|raw| self.add_string(raw)),
            file: file.map(|file| self.add_string(file)),
        };
        self.table.functions.push(function);
        let number = to_number(self.table.functions.len());
        *self.functions.get_mut(index as usize)? = number;
        Some(number - 1)
    }

    fn add_string(&mut self, text: Text<'s>) -> u32 {
        let strings = &mut self.table.strings;
        *self.strings.entry(text.raw().as_ptr().addr()).or_insert_with(|| {
            strings.push(text);
            to_number(strings.len() - 1)
        })
    }
}

/// Converts a position in a table to a number. Tables hold less than a symcache of 4 GiB can.
fn to_number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
