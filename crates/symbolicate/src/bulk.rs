//! Many addresses at once: each one is looked up once, and each function is told once.
//!
//! The addresses of an image are sorted and looked up in one walk over its symcache. What comes out are tables that
//! refer to each other by number, so that an address costs a row of numbers and no text.

use crate::symbols::ImageSymbols;
use crate::symcache::{CodeAnswer, FunctionTexts, NameSource, RangeWalk, SymCache, WalkedPlace};
use std::collections::HashMap;
use std::ops::Range;
use unslide_model::{DebugId, RelativeAddress};
use unslide_report::Text;

/// The most calls of a table, some 400 MB of them. What lies beyond has no names.
const MOST_CALLS: usize = 1 << 24;

/// An address to look up, and how often it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedAddress {
    /// The position of its image in the list of debug ids.
    pub image: u32,
    /// Its distance from the image's start. Of a return address that of the byte before it.
    pub address: RelativeAddress,
    /// How often it occurs.
    pub count: u64,
}

/// What is known of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRow {
    /// The address, with the count of all that were equal.
    pub at: CountedAddress,
    /// What lies there.
    pub answer: AddressAnswer,
}

/// What lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAnswer {
    /// The chain of calls with this number.
    Chain(u32),
    /// Inside the image, but no function that has a name.
    Gap,
    /// Past the end of the image.
    Outside,
    /// Not known: the image has no symbols.
    NoSymbols,
}

/// The calls at a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChain {
    /// The calls by number, the innermost first; at least one.
    pub calls: Range<u32>,
    /// Where the name of the function that owns the code comes from.
    pub source: NameSource,
    /// True where the function's extent is not known, so that the name is only the nearest one.
    pub approximate: bool,
    /// The string with the linkage name of the function that owns the code; `None` where it is nameless.
    pub symbol: Option<u32>,
    /// Where that function starts; `None` where it is not known.
    pub symbol_address: Option<RelativeAddress>,
}

/// One call of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainCall {
    /// The number of its function.
    pub function: u32,
    /// Line, from 1; `None` where the compiler gave none.
    pub line: Option<u32>,
    /// Column, from 1; `None` where the compiler gave none.
    pub column: Option<u32>,
    /// True for a function that was inlined into the next call.
    pub inlined: bool,
}

/// A function, as the numbers of its strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainFunction {
    /// Its name, demangled. Empty where the debug information gives none.
    pub name: u32,
    /// Its linkage name, only where it differs.
    pub raw: Option<u32>,
    /// The path of its source file.
    pub file: Option<u32>,
}

/// The answers of a set of addresses.
#[derive(Clone, Debug, Default)]
pub struct AddressTable<'s> {
    /// One row for each distinct address, by image and address.
    pub rows: Vec<AddressRow>,
    /// What the rows refer to. Addresses of one range share a chain.
    pub chains: Vec<CallChain>,
    /// What the chains refer to.
    pub calls: Vec<ChainCall>,
    /// What the calls refer to, each once.
    pub functions: Vec<ChainFunction>,
    /// What functions and chains refer to, each once for each image.
    pub strings: Vec<Text<'s>>,
}

/// Looks all addresses up, each once. `images` are the debug ids that they refer to by position.
#[must_use]
pub fn look_up<'s>(
    images: &[Option<DebugId>],
    mut addresses: Vec<CountedAddress>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> AddressTable<'s> {
    if !addresses.is_sorted() {
        addresses.sort_unstable();
    }
    addresses.dedup_by(|next, kept| {
        let is_same = (next.image, next.address) == (kept.image, kept.address);
        kept.count = kept.count.saturating_add(if is_same { next.count } else { 0 });
        is_same
    });
    let mut table = AddressTable { rows: Vec::with_capacity(addresses.len()), ..AddressTable::default() };
    for of_image in addresses.chunk_by(|a, b| a.image == b.image) {
        let id = of_image.first().and_then(|first| images.get(first.image as usize)?.as_ref());
        match id.and_then(symbols) {
            Some(ImageSymbols::Found { symcache, .. }) => Walker::new(&mut table, symcache).walk(of_image),
            _ => {
                let rows = of_image.iter().map(|at| AddressRow { at: *at, answer: AddressAnswer::NoSymbols });
                table.rows.extend(rows);
            }
        }
    }
    table
}

impl<'s> AddressTable<'s> {
    /// The row of an address.
    #[must_use]
    pub fn row(&self, image: u32, address: RelativeAddress) -> Option<&AddressRow> {
        let at = self.rows.binary_search_by_key(&(image, address), |row| (row.at.image, row.at.address));
        self.rows.get(at.ok()?)
    }

    /// The chain of a row.
    #[must_use]
    pub fn chain(&self, row: &AddressRow) -> Option<&CallChain> {
        match row.answer {
            AddressAnswer::Chain(chain) => self.chains.get(chain as usize),
            AddressAnswer::Gap | AddressAnswer::Outside | AddressAnswer::NoSymbols => None,
        }
    }

    /// The calls of a chain, the innermost first.
    #[must_use]
    pub fn calls_of(&self, chain: &CallChain) -> &[ChainCall] {
        self.calls.get(chain.calls.start as usize..chain.calls.end as usize).unwrap_or_default()
    }

    /// The function of a call.
    #[must_use]
    pub fn function(&self, call: &ChainCall) -> Option<&ChainFunction> {
        self.functions.get(call.function as usize)
    }

    /// The string with a number.
    #[must_use]
    pub fn string(&self, number: u32) -> Option<Text<'s>> {
        self.strings.get(number as usize).copied()
    }
}

/// Fills a table with the addresses of one image.
struct Walker<'t, 's> {
    table: &'t mut AddressTable<'s>,
    walk: RangeWalk<'s>,
    /// The number of each function of the symcache in the table, and one more; 0 where it has none yet.
    functions: Vec<u32>,
    /// Numbers of strings by where these lie: a symcache holds each text once.
    strings: HashMap<usize, u32>,
    /// The last range, and its answer.
    last: Option<(usize, AddressAnswer)>,
}

impl<'t, 's> Walker<'t, 's> {
    fn new(table: &'t mut AddressTable<'s>, symcache: &'s SymCache) -> Walker<'t, 's> {
        let walk = symcache.walk();
        Walker { table, functions: vec![0; walk.functions()], walk, strings: HashMap::new(), last: None }
    }

    fn walk(mut self, addresses: &[CountedAddress]) {
        for at in addresses {
            let answer = self.answer(at.address);
            self.table.rows.push(AddressRow { at: *at, answer });
        }
    }

    #[inline]
    fn answer(&mut self, address: RelativeAddress) -> AddressAnswer {
        let range = match self.walk.find(address) {
            WalkedPlace::Outside => return AddressAnswer::Outside,
            WalkedPlace::Before => return AddressAnswer::Gap,
            WalkedPlace::Range(range) => range,
        };
        if let Some((last, answer)) = self.last
            && last == range
        {
            return answer;
        }
        let answer = self.walk.answer(range).map_or(AddressAnswer::Gap, |found| self.chain(&found));
        self.last = Some((range, answer));
        answer
    }

    fn chain(&mut self, found: &CodeAnswer<'s>) -> AddressAnswer {
        if self.table.calls.len() >= MOST_CALLS {
            return AddressAnswer::Gap;
        }
        let start = number(self.table.calls.len());
        for record in found.records() {
            let Some(function) = self.function(record.function) else { break };
            let call =
                ChainCall { function, line: record.line, column: record.column, inlined: record.inlined };
            self.table.calls.push(call);
        }
        let symbol = found.symbol.map(|symbol| self.string(symbol));
        self.table.chains.push(CallChain {
            calls: start..number(self.table.calls.len()),
            source: found.source,
            approximate: found.approximate,
            symbol,
            symbol_address: found.symbol_address,
        });
        AddressAnswer::Chain(number(self.table.chains.len() - 1))
    }

    fn function(&mut self, index: u32) -> Option<u32> {
        let known = *self.functions.get(index as usize)?;
        if let Some(known) = known.checked_sub(1) {
            return Some(known);
        }
        let FunctionTexts { name, raw, file } = self.walk.function(index)?;
        let function = ChainFunction {
            name: self.string(name),
            raw: raw.map(|raw| self.string(raw)),
            file: file.map(|file| self.string(file)),
        };
        self.table.functions.push(function);
        let number = number(self.table.functions.len());
        *self.functions.get_mut(index as usize)? = number;
        Some(number - 1)
    }

    fn string(&mut self, text: Text<'s>) -> u32 {
        let strings = &mut self.table.strings;
        *self.strings.entry(text.raw().as_ptr().addr()).or_insert_with(|| {
            strings.push(text);
            number(strings.len() - 1)
        })
    }
}

/// A position in a table. Tables hold less than what a symcache of 4 GiB can.
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
