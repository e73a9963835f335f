//! Cost of work. Rate limits count cost units, so that a large report costs more than a small one.

/// Unpacked bytes per cost unit. Each report costs one unit more.
pub const UNIT_BYTES: u64 = 64 << 10;

/// Returns the cost of a number of bytes, in units.
#[must_use]
pub fn units_for_bytes(bytes: u64) -> u64 {
    bytes / UNIT_BYTES
}

/// Returns the cost of a record with one report, in units.
#[must_use]
pub fn units_for_record(bytes: usize) -> u64 {
    1 + units_for_bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_report_costs_one_unit_and_64_kib_one_more() {
        let costs = [0, 65_535, 65_536, 20 << 20].map(units_for_record);
        assert_eq!(costs, [1, 1, 2, 321]);
    }
}
