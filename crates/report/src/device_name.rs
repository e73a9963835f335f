//! Checks whether the device's name for an address is usable.

use crate::Text;
use unslide_model::SymbolName;

/// Distance from its symbol, in bytes, above which the device's name is a guess.
pub const GUESS_DISTANCE_BYTES: u64 = 64 << 10;
/// Distance from its symbol, in bytes, above which the device's name is not used.
const UNUSABLE_DISTANCE_BYTES: u64 = 1 << 20;

/// Returns false for the placeholders that devices write if they know no name.
#[must_use]
pub fn is_a_name(name: Text<'_>) -> bool {
    let is_escaped = name.raw().contains(&b'\\');
    if is_escaped {
        SymbolName::is_function(name.decode().as_bytes())
    } else {
        SymbolName::is_function(name.raw())
    }
}

/// Returns the distance of an address from the symbol that the device found, in an image that starts at `image`.
/// Returns `None` if that symbol lies behind the address, before the image, or too far away.
#[must_use]
pub fn offset_from_symbol(address: u64, symbol: u64, image: u64) -> Option<u64> {
    address.checked_sub(symbol).filter(|offset| symbol >= image && *offset <= UNUSABLE_DISTANCE_BYTES)
}
