//! The picture of a block's neighbourhood: on the left what refers to it, on the right what it refers to. Each block leads
//! to its own page, so that a reader walks through the graph without a script.

use unslide_captures_formats::memory_graph::{BlockDetail, NeighbourRow};
use unslide_site::{bytes, grouped};

/// The most blocks on each side. The lists below the picture have more.
const MOST_SIDE_BOXES: usize = 8;
/// The most characters of a line in a box.
const LINE_CHARS: usize = 34;
const BOX_PITCH: u32 = 58;
/// The left edges of the three columns.
const COLUMNS: [u32; 3] = [0, 345, 690];
const MARGIN: u32 = 1;

pub struct BlockPicture {
    pub height: u32,
    pub boxes: Vec<PictureBox>,
    pub arrows: Vec<PictureArrow>,
}

pub struct PictureBox {
    pub x: u32,
    pub y: u32,
    /// The page of the block, or the list of the blocks that have no box.
    pub href: Option<String>,
    /// Both lines in full.
    pub title: String,
    pub name: String,
    pub detail: String,
}

/// An arrow from the right edge of a box to the left edge of another.
pub struct PictureArrow {
    pub from_x: u32,
    pub from_y: u32,
    pub to_x: u32,
    pub to_y: u32,
    pub keeps_alive: bool,
}

/// A side of the picture.
struct PictureSide<'d> {
    rows: &'d [NeighbourRow],
    count: u64,
    /// The anchor of the whole list.
    list: &'static str,
    is_left: bool,
}

impl PictureSide<'_> {
    /// Returns the number of rows that the side takes: blocks, and one for those that have no box.
    fn row_count(&self) -> u32 {
        let boxes = self.rows.len().min(MOST_SIDE_BOXES) as u32;
        boxes + u32::from(self.count > u64::from(boxes))
    }
}

impl BlockPicture {
    pub const WIDTH: u32 = 952;
    pub const BOX_WIDTH: u32 = 260;
    pub const BOX_HEIGHT: u32 = 44;

    /// Draws a block with its neighbours. `find_page` returns the page of the block at an address.
    pub fn from_detail(detail: &BlockDetail, find_page: impl Fn(&str) -> String) -> BlockPicture {
        let left = PictureSide {
            rows: &detail.referrers,
            count: detail.referrer_count,
            list: "#referrers",
            is_left: true,
        };
        let right = PictureSide {
            rows: &detail.references,
            count: detail.reference_count,
            list: "#references",
            is_left: false,
        };
        let rows = left.row_count().max(right.row_count()).max(1);
        let height = rows * BOX_PITCH;
        let mut picture = BlockPicture { height, boxes: Vec::new(), arrows: Vec::new() };
        let block = &detail.block;
        let facts = format!("{} · {}", block.address, bytes(block.bytes));
        let y = (height - Self::BOX_HEIGHT) / 2;
        picture.add_box(COLUMNS[1], y, None, &block.class, &facts);
        picture.add_side(&left, &find_page);
        picture.add_side(&right, &find_page);
        picture
    }

    fn add_side(&mut self, side: &PictureSide<'_>, find_page: &impl Fn(&str) -> String) {
        let x = if side.is_left { COLUMNS[0] } else { COLUMNS[2] };
        let mut y = (self.height - side.row_count() * BOX_PITCH) / 2 + (BOX_PITCH - Self::BOX_HEIGHT) / 2;
        for row in side.rows.iter().take(MOST_SIDE_BOXES) {
            let is_block = !row.class.is_empty();
            let name = if is_block { &*row.class } else { "outside of the heap" };
            let place = row.member.as_ref().map_or_else(
                || row.offset.map(|offset| format!(", offset {offset}")).unwrap_or_default(),
                |member| format!(", {}", member.describe()),
            );
            let href = is_block.then(|| find_page(&row.address));
            self.add_box(x, y, href, name, &format!("{}{place}", row.by));
            self.add_arrow(side, y, row.keeps_alive);
            y += BOX_PITCH;
        }
        let others = side.count.saturating_sub(side.rows.len().min(MOST_SIDE_BOXES) as u64);
        if others > 0 {
            let href = Some(side.list.to_owned());
            self.add_box(x, y, href, &format!("{} more", grouped(others)), "see the list");
        }
    }

    fn add_box(&mut self, x: u32, y: u32, href: Option<String>, name: &str, detail: &str) {
        let title = format!("{name}, {detail}");
        let (name, detail) = (clip_line(name), clip_line(detail));
        self.boxes.push(PictureBox { x: x + MARGIN, y, href, title, name, detail });
    }

    fn add_arrow(&mut self, side: &PictureSide<'_>, y: u32, keeps_alive: bool) {
        let (side_y, middle_y) = (y + Self::BOX_HEIGHT / 2, self.height / 2);
        let (from, to, from_y, to_y) = match side.is_left {
            true => (COLUMNS[0], COLUMNS[1], side_y, middle_y),
            false => (COLUMNS[1], COLUMNS[2], middle_y, side_y),
        };
        let from_x = from + MARGIN + Self::BOX_WIDTH;
        self.arrows.push(PictureArrow { from_x, from_y, to_x: to + MARGIN, to_y, keeps_alive });
    }
}

/// Returns the beginning of a line that fits into a box.
fn clip_line(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS) {
        Some(_) => text.chars().take(LINE_CHARS - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_captures_formats::memory_graph::BlockRow;

    fn neighbour(number: u32) -> NeighbourRow {
        NeighbourRow {
            address: format!("{number:#x}"),
            class: "Shop.Item".repeat(number as usize % 8),
            by: "strong".to_owned(),
            offset: Some(number),
            member: None,
            keeps_alive: number.is_multiple_of(2),
        }
    }

    #[test]
    fn boxes_lie_in_the_picture_beside_each_other_and_lead_to_pages() {
        for (referrers, references, count) in [(0_u32, 0_u32, 0_u64), (1, 8, 8), (100, 3, 3), (9, 100, 4_000)]
        {
            let detail = BlockDetail {
                block: BlockRow {
                    address: "0x1".to_owned(),
                    class: "Cart".to_owned(),
                    bytes: 64,
                    retained: 64,
                    path: Vec::new(),
                },
                referrers: (0..referrers).map(neighbour).collect(),
                referrer_count: referrers.into(),
                references: (0..references).map(neighbour).collect(),
                reference_count: count,
                keeps: Vec::new(),
                keeps_count: 0,
            };
            let picture = BlockPicture::from_detail(&detail, |address| format!("/blocks/{address}"));
            let inside = |part: &PictureBox| {
                part.x + BlockPicture::BOX_WIDTH <= BlockPicture::WIDTH
                    && part.y + BlockPicture::BOX_HEIGHT <= picture.height
            };
            assert!(picture.boxes.iter().all(inside));
            for (at, one) in picture.boxes.iter().enumerate() {
                for other in &picture.boxes[at + 1..] {
                    let apart = one.x.abs_diff(other.x) >= BlockPicture::BOX_WIDTH
                        || one.y.abs_diff(other.y) >= BlockPicture::BOX_HEIGHT;
                    assert!(apart, "{} {} and {} {}", one.x, one.y, other.x, other.y);
                }
                assert!(one.name.chars().count() <= LINE_CHARS);
            }
            let shown = referrers.min(8) + references.min(8);
            assert_eq!(picture.arrows.len(), shown as usize);
            let more = usize::from(referrers > 8) + usize::from(count > u64::from(references.min(8)));
            assert_eq!(picture.boxes.len(), 1 + shown as usize + more);
            let others: Vec<&str> = picture
                .boxes
                .iter()
                .filter(|part| part.detail == "see the list")
                .map(|part| part.name.as_str())
                .collect();
            if referrers == 9 {
                assert_eq!(others, ["1 more", "3\u{202f}992 more"]);
            }
        }
    }
}
