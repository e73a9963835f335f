//! The load address of the image of a MetricKit frame.

/// The size of the smallest page. Images begin at a page.
const PAGE_BYTES: u64 = 4096;
/// The lowest load address of a 64-bit process. 32-bit ones and those of watches lie below it.
const FIRST_64_BIT_IMAGE: u64 = 1 << 32;

/// Returns the load address of a frame's image. `field` is `offsetIntoBinaryTextSegment`: the offset of the frame in its
/// image, but iOS 14 and 15 write the load address itself. Returns `None` if it is neither.
///
/// An image of a 64-bit process is smaller than its load address, so a field beyond half of the address is none of its
/// offsets. In a 32-bit process, a load address is also known by its page.
#[must_use]
pub fn load_address(address: u64, field: u64) -> Option<u64> {
    let is_beyond_half = field > address / 2 && field < address;
    let is_load_address =
        is_beyond_half && (address >= FIRST_64_BIT_IMAGE || field.is_multiple_of(PAGE_BYTES));
    if is_load_address { Some(field) } else { address.checked_sub(field) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_an_offset_or_a_load_address() {
        for (address, field, expected) in [
            (0x1_0088_5010, 0x1_0087_b000, Some(0x1_0087_b000)),
            (0x1_0088_5010, 0xa010, Some(0x1_0087_b000)),
            (0x1_0088_5010, 0x1000, Some(0x1_0088_4010)),
            (0x4_5000, 0x4_4000, Some(0x4_4000)),
            (0x4_5000, 0x1000, Some(0x4_4000)),
            (74_565, 123, Some(74_442)),
            (0x1_00c6_a004, 0x1_00c6_6800, Some(0x1_00c6_6800)),
            (0x1_8f2c_5d04, 0xf2c_5d04, Some(0x1_8000_0000)),
            (0x1000, 0x2000, None),
            (u64::MAX, u64::MAX, Some(0)),
        ] {
            assert_eq!(load_address(address, field), expected, "{address:#x} {field:#x}");
        }
    }
}
