//! The functions of a stack, by the symcache of its build.

use unslide_model::RelativeAddress;
use unslide_report::Text;
use unslide_symbolicate::symcache::SymCache;

/// A function at an address, or one that is inlined there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFunction<'s> {
    /// The linkage name, as the symbols have it.
    pub symbol: Text<'s>,
    /// The name as a person reads it.
    pub name: Text<'s>,
    /// The path of the source file of its code here.
    pub file: Option<Text<'s>>,
    /// The line at the address.
    pub line: Option<u32>,
    /// True if it is inlined into the next one.
    pub is_inlined: bool,
}

/// Returns the functions at an address, the innermost first; empty if symbols name none.
#[must_use]
pub fn list_stack_functions(symcache: &SymCache, address: RelativeAddress) -> Vec<StackFunction<'_>> {
    let Some(answer) = symcache.lookup(address).into_answer() else { return Vec::new() };
    let functions = answer.calls().map(|call| StackFunction {
        symbol: call.raw.unwrap_or(call.function),
        name: call.function,
        file: call.file,
        line: call.line,
        is_inlined: call.inlined,
    });
    functions.filter(|function| !function.symbol.is_empty()).collect()
}
