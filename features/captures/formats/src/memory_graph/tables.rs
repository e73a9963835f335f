//! Tables about memory, independent of their source: totals by class, by tag and by zone, the largest
//! retainers, and leaks.

use serde::{Deserialize, Serialize};
use unslide_model::first_bytes;

/// The most bytes of a name in an answer.
const MOST_NAME: usize = 1_024;
/// The most bytes of a name on a way: 100 blocks have up to 64 steps each.
const MOST_STEP_NAME: usize = 128;

/// The source of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySource {
    MemoryGraph,
    Heap,
    Leaks,
    Vmmap,
    Footprint,
}

/// Tables about memory. Lists that the source does not have are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTables {
    pub source: MemorySource,
    /// The name of the process; empty if it is not known.
    pub process: String,
    pub totals: MemoryTotals,
    /// Ranges of pages by their purpose, those with most dirty and swapped memory first.
    pub regions: Vec<RegionRow>,
    /// Blocks by malloc zone, the largest first.
    pub zones: Vec<ZoneRow>,
    /// Blocks by class, the largest first.
    pub classes: Vec<ClassRow>,
    /// Blocks that keep most memory alive.
    pub largest: Vec<BlockRow>,
    /// Leaks by shape, the largest first.
    pub leaks: Vec<LeakRow>,
    /// Lines that could not be read.
    pub skipped: u64,
    /// Rows that were left out of the lists.
    pub left_out: u64,
    /// Which lists these are of.
    #[serde(default)]
    pub cut: CutLists,
}

/// The lists from which rows were left out: the memory may still hold rows that a list lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutLists {
    pub regions: bool,
    pub classes: bool,
    pub leaks: bool,
}

/// Sums over the memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTotals {
    pub blocks: u64,
    pub bytes: u64,
    pub references: u64,
    /// References from outside of the heap.
    pub roots: u64,
    pub leaked_blocks: u64,
    pub leaked_bytes: u64,
    /// The memory that the system charges to the process, if the source says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint: Option<u64>,
}

/// Ranges of pages of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionRow {
    /// The purpose of the ranges.
    pub name: String,
    pub regions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    pub dirty: u64,
    /// Bytes that are compressed or swapped out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swapped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
}

/// Blocks of one malloc zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneRow {
    pub name: String,
    pub blocks: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRow {
    pub name: String,
    /// Its language; empty if it is not known, or classes of several have this name.
    pub kind: String,
    /// The image that has it; empty if it is not known.
    pub image: String,
    pub blocks: u64,
    pub bytes: u64,
    /// The sum of the bytes that each of them keeps alive alone. It is a lower bound: it does not include
    /// memory that only several of them together keep alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retained: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRow {
    pub address: String,
    pub class: String,
    pub bytes: u64,
    /// The bytes that would be free without it.
    pub retained: u64,
    /// The shortest way to it, from a root.
    pub path: Vec<PathStep>,
}

/// A block on a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStep {
    pub address: String,
    pub class: String,
    /// How it is referred to: the kind of the root for the first, and of the reference for the others.
    pub by: String,
    /// The offset of the reference in the block before, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u32>,
    /// The member of the block before that refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberLabel>,
    /// Steps that were left out before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// The member that a reference lies in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberLabel {
    /// Its name, with the position of an element: `cache`, `entries[12]`, or `[12]` in a block that is an array.
    pub name: String,
    /// Its type; empty if it is not known.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_name: String,
}

impl MemberLabel {
    /// Returns name and type as one text.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.type_name.as_str() {
            "" => self.name.clone(),
            type_name => format!("{}: {type_name}", self.name),
        }
    }

    pub(super) fn shorten_names(&mut self) {
        shorten_list_name(&mut self.name);
        shorten_list_name(&mut self.type_name);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakRow {
    /// The same for leaks of the same shape in any snapshot.
    pub signature: String,
    /// True for objects that keep each other alive.
    pub cycle: bool,
    /// The classes at the top, with counts.
    pub name: String,
    pub leaks: u64,
    /// Their blocks, with all that hangs on them.
    pub blocks: u64,
    pub bytes: u64,
    /// The address of a block at the top of one of them; empty if it is not known.
    pub example: String,
}

impl MemoryTables {
    pub(super) fn new(source: MemorySource) -> MemoryTables {
        MemoryTables {
            source,
            process: String::new(),
            totals: MemoryTotals::default(),
            regions: Vec::new(),
            zones: Vec::new(),
            classes: Vec::new(),
            largest: Vec::new(),
            leaks: Vec::new(),
            skipped: 0,
            left_out: 0,
            cut: CutLists::default(),
        }
    }

    /// Puts the largest rows of each list first.
    pub(super) fn sort_rows(&mut self) {
        self.regions.sort_by(|a, b| {
            let charged = |row: &RegionRow| row.dirty.saturating_add(row.swapped.unwrap_or(0));
            (charged(b), b.size).cmp(&(charged(a), a.size)).then_with(|| a.name.cmp(&b.name))
        });
        self.zones.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        self.classes.sort_by(|a, b| {
            b.bytes.cmp(&a.bytes).then_with(|| (&a.name, &a.image).cmp(&(&b.name, &b.image)))
        });
        self.leaks.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.signature.cmp(&b.signature)));
    }

    /// Keeps at most `rows` rows of each list.
    pub fn truncate_rows(&mut self, rows: usize) {
        self.truncate_lists(rows, rows, usize::MAX);
    }

    /// Keeps at most `rows` rows of each list, and `compared` of those that snapshots are compared by, as far as their
    /// names have at most `most_text` bytes.
    pub fn truncate_lists(&mut self, rows: usize, compared: usize, most_text: usize) {
        let regions = cut_rows(&mut self.regions, compared, most_text, |row| row.name.len());
        let zones = cut_rows(&mut self.zones, rows, usize::MAX, |row| row.name.len());
        let text = |row: &ClassRow| row.name.len() + row.kind.len() + row.image.len();
        let classes = cut_rows(&mut self.classes, compared, most_text, text);
        let text = |row: &LeakRow| row.name.len() + row.signature.len() + row.example.len();
        let leaks = cut_rows(&mut self.leaks, compared, most_text, text);
        self.left_out += regions + zones + classes + leaks;
        self.cut.regions |= regions > 0;
        self.cut.classes |= classes > 0;
        self.cut.leaks |= leaks > 0;
        self.largest.truncate(rows);
    }

    /// Cuts long names, which files may have.
    pub fn shorten_names(&mut self) {
        let regions = self.regions.iter_mut().map(|row| &mut row.name);
        let zones = self.zones.iter_mut().map(|row| &mut row.name);
        let classes = self.classes.iter_mut().flat_map(|row| [&mut row.name, &mut row.kind, &mut row.image]);
        let leaks =
            self.leaks.iter_mut().flat_map(|row| [&mut row.name, &mut row.signature, &mut row.example]);
        for name in regions.chain(zones).chain(classes).chain(leaks).chain([&mut self.process]) {
            shorten_text(name, MOST_NAME);
        }
        self.largest.iter_mut().for_each(BlockRow::shorten_names);
    }
}

/// Keeps the first `most` rows at most, with `most_text` bytes of text at most; gives the number of the others.
fn cut_rows<T>(rows: &mut Vec<T>, most: usize, most_text: usize, text: impl Fn(&T) -> usize) -> u64 {
    let mut bytes = 0_usize;
    let fits = rows.iter().take(most).take_while(|row| {
        bytes = bytes.saturating_add(text(row));
        bytes <= most_text
    });
    let kept = fits.count();
    let left_out = rows.len() - kept;
    rows.truncate(kept);
    left_out as u64
}

impl BlockRow {
    /// Cuts long names, which files may have.
    pub(super) fn shorten_names(&mut self) {
        shorten_text(&mut self.class, MOST_NAME);
        for step in &mut self.path {
            shorten_text(&mut step.class, MOST_STEP_NAME);
            shorten_text(&mut step.by, MOST_STEP_NAME);
            step.member.iter_mut().for_each(MemberLabel::shorten_names);
        }
    }
}

/// Cuts a name in a list before the character that goes beyond the limit in bytes.
pub(super) fn shorten_list_name(name: &mut String) {
    shorten_text(name, MOST_STEP_NAME);
}

/// Cuts a text before the character that goes beyond the limit in bytes.
fn shorten_text(text: &mut String, most: usize) {
    if text.len() > most {
        *text = first_bytes(text, most).to_owned();
    }
}
