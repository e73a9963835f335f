//! Mach-O files put together by hand, for what no compiler would write.

/// A slice with a `__TEXT` at 0x1000 (0x1000 bytes, all code) and the given sections of debug information.
#[derive(Default)]
pub struct File<'n> {
    /// Sections of debug information by name.
    pub dwarf: Vec<(&'static str, Vec<u8>)>,
    /// Name and address of symbols.
    pub symbols: Vec<(&'n str, u64)>,
    /// Added to the offset of the symbol table.
    pub symbols_off_by: u32,
    /// The list of function starts.
    pub function_starts: Vec<u8>,
    /// File type, if not a dSYM.
    pub kind: Option<u32>,
}

/// The address of `__TEXT`.
pub const TEXT: u64 = 0x1000;
/// The address of the code in it.
pub const CODE: u64 = 0x1100;

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn name16(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let len = name.len().min(16);
    out[..len].copy_from_slice(&name.as_bytes()[..len]);
    out
}

impl File<'_> {
    /// The file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let dwarf_size = 72 + 80 * self.dwarf.len();
        let commands = [152, 24, 24, 16, dwarf_size];
        let mut at = 32 + commands.iter().sum::<usize>();
        let mut data = Vec::new();
        let mut place = |bytes: &[u8]| {
            let here = small(at);
            at += bytes.len();
            data.extend_from_slice(bytes);
            here
        };
        let (mut names, mut table) = (vec![0], Vec::new());
        for (name, address) in &self.symbols {
            table.extend(small(names.len()).to_le_bytes());
            table.extend([0x0F, 1, 0, 0]);
            table.extend(address.to_le_bytes());
            names.extend(name.bytes().chain([0]));
        }
        let table_at = place(&table) + self.symbols_off_by;
        let names_at = place(&names);
        let starts_at = place(&self.function_starts);
        let sections: Vec<u32> = self.dwarf.iter().map(|(_, bytes)| place(bytes)).collect();

        let mut out = Vec::new();
        let kind = self.kind.unwrap_or(10) as usize;
        for n in [0xFEED_FACF, 0x0100_000C, 0, kind, commands.len(), commands.iter().sum(), 0, 0] {
            out.extend(small(n).to_le_bytes());
        }
        segment(&mut out, "__TEXT", TEXT, 0x1000, &[("__text", CODE, 0x0F00, 0, 0x8000_0400)]);
        out.extend([0x1B, 24].map(u32::to_le_bytes).concat());
        out.extend([7; 16]);
        let names_size = small(names.len());
        let count = small(self.symbols.len());
        out.extend([0x2, 24, table_at, count, names_at, names_size].map(u32::to_le_bytes).concat());
        let starts_size = small(self.function_starts.len());
        out.extend([0x26, 16, starts_at, starts_size].map(u32::to_le_bytes).concat());
        let sections: Vec<_> = self
            .dwarf
            .iter()
            .zip(sections)
            .map(|((name, bytes), at)| (*name, 0x10_0000 + u64::from(at), bytes.len() as u64, at, 0))
            .collect();
        segment(&mut out, "__DWARF", 0x10_0000, 0, &sections);
        out.extend(data);
        out
    }
}

fn segment(out: &mut Vec<u8>, name: &str, address: u64, size: u64, sections: &[(&str, u64, u64, u32, u32)]) {
    let command_size = small(72 + 80 * sections.len());
    out.extend([0x19, command_size].map(u32::to_le_bytes).concat());
    out.extend(name16(name));
    out.extend([address, size, 0, 0].map(u64::to_le_bytes).concat());
    out.extend([5, 5, small(sections.len()), 0].map(u32::to_le_bytes).concat());
    for (section, address, size, offset, flags) in sections {
        out.extend(name16(section));
        out.extend(name16(name));
        out.extend([*address, *size].map(u64::to_le_bytes).concat());
        out.extend([*offset, 0, 0, 0, *flags, 0, 0, 0].map(u32::to_le_bytes).concat());
    }
}

/// A `.debug_info` unit of DWARF 4 with these entries.
#[must_use]
pub fn unit(entries: &[u8]) -> Vec<u8> {
    let mut unit = small(7 + entries.len()).to_le_bytes().to_vec();
    unit.extend([4, 0, 0, 0, 0, 0, 8]);
    unit.extend(entries);
    unit
}

/// A dSYM of two million functions that are nowhere, of two bytes each: its build takes more than fifty times its size
/// in memory.
#[must_use]
pub fn many_functions() -> Vec<u8> {
    let nodes = vec![1, 0x11, 1, 0, 0, 2, 0x2E, 1, 0, 0, 0];
    let entries = [&[1][..], &[2, 0].repeat(2_000_000)].concat();
    File { dwarf: vec![("__debug_info", unit(&entries)), ("__debug_abbrev", nodes)], ..File::default() }
        .bytes()
}

/// A dSYM where the first byte of code stands for 256 functions inlined into one another, each with a name of
/// `name_bytes` bytes: one frame's answer is hundreds of times its length.
#[must_use]
pub fn longest_chain(name_bytes: usize) -> Vec<u8> {
    // 1 a unit; 2 a function with name, low pc, size; 3 an inlined one with origin, low pc, size; 4 a
    // function that is nowhere itself, with a name.
    let mut table = vec![1, 0x11, 1, 0, 0];
    table.extend([2, 0x2E, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0]);
    table.extend([3, 0x1D, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0, 0]);
    table.extend([4, 0x2E, 0, 0x03, 0x08, 0, 0, 0]);
    let name = |n: usize| format!("f{n:03}{}", "x".repeat(name_bytes.saturating_sub(4))).into_bytes();
    let place = [&CODE.to_le_bytes()[..], &4_u32.to_le_bytes()].concat();
    let mut entries = vec![1];
    let mut origins = Vec::new();
    for n in 1..256 {
        // A unit's header has eleven bytes.
        origins.push(small(11 + entries.len()));
        entries.extend([&[4][..], &name(n), &[0]].concat());
    }
    entries.extend([&[2][..], &name(0), &[0], &place].concat());
    for origin in origins {
        entries.extend([&[3][..], &origin.to_le_bytes(), &place].concat());
    }
    entries.extend([0; 257]);
    let dwarf = vec![("__debug_info", unit(&entries)), ("__debug_abbrev", table)];
    File { dwarf, ..File::default() }.bytes()
}
