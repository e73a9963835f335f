//! What an object may cost.

/// Bounds on the work that one object may cause. The defaults let the largest real dSYMs pass and
/// stop hostile input in seconds and within memory of the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most slices in a fat file.
    pub max_slices: usize,
    /// The most load commands, sections, and units of debug information.
    pub max_units: usize,
    /// The most symbols, exports and function starts, each.
    pub max_symbols: usize,
    /// The most bytes of names out of the export trie, which can share prefixes without end.
    pub max_export_bytes: usize,
    /// The most debug information entries.
    pub max_entries: u64,
    /// The largest table of directories and files of one unit, in bytes.
    pub max_line_header_bytes: u64,
    /// The deepest nesting of debug information entries.
    pub max_depth: usize,
    /// The most rows of line tables; also no more than one for four bytes of the file.
    pub max_rows: u64,
    /// The most address ranges of functions; also no more than one for four bytes of the file.
    pub max_ranges: u64,
    /// The most steps from an entry to the entry that names it.
    pub max_origin_steps: usize,
    /// The longest name or path, in bytes; a longer one is cut.
    pub max_name_bytes: usize,
    /// The most bytes of debug information that are read, as a multiple of the file's size: parts
    /// that are used many times count each time.
    pub max_read_factor: u64,
    /// The largest symcache, in bytes.
    pub max_output_bytes: usize,
    /// The most memory that a build takes, in bytes; also no more than [`Limits::memory`] gives a file of
    /// its size.
    pub max_memory_bytes: u64,
}

impl Limits {
    /// The most memory that building from a file of so many bytes takes, the file itself not counted.
    #[must_use]
    pub fn memory(&self, file_size: usize) -> u64 {
        const FLOOR: u64 = 64 << 20;
        const FACTOR: u64 = 16;
        (file_size as u64).saturating_mul(FACTOR).saturating_add(FLOOR).min(self.max_memory_bytes)
    }

    /// A limit for things of which a real file has far fewer than one for four bytes.
    pub(super) fn of_file(limit: u64, file_size: usize) -> u64 {
        limit.min(file_size as u64 / 4 + (1 << 20))
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_slices: 64,
            max_units: 1 << 18,
            max_symbols: 16 << 20,
            max_export_bytes: 256 << 20,
            max_entries: 1 << 30,
            max_line_header_bytes: 8 << 20,
            max_depth: 1024,
            max_rows: 64 << 20,
            max_ranges: 64 << 20,
            max_origin_steps: 16,
            max_name_bytes: 16 << 10,
            max_read_factor: 16,
            max_output_bytes: 1 << 30,
            max_memory_bytes: 1 << 30,
        }
    }
}
