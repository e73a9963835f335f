//! A small log of allocations.

/// The mask that addresses of a log are combined with.
const ADDRESS_MASK: u64 = 0x5555;

/// Creates a record in the layout `Index`.
pub fn record(flags: u32, address: u64, size: u64, stack: u64) -> Vec<u8> {
    [size, address ^ ADDRESS_MASK, stack, u64::from(flags)].map(u64::to_le_bytes).concat()
}

/// Creates events in the layout `Index`, and a table with two stacks in an image at 0x1000.
pub fn small_log() -> (Vec<u8>, Vec<u8>) {
    let events =
        [record(2, 0x6000_0030, 100, 2), record(2, 0x6000_0020, 200, 3), record(4, 0x5000_0000, 0, 0)];
    let slots = [(0, 0), (0x104, u64::MAX), (0x1010, 1), (0x1020, 1)];
    let stacks =
        slots.map(|(address, caller): (u64, u64)| [address.to_le_bytes(), caller.to_le_bytes()].concat());
    (events.concat(), stacks.concat())
}
