//! `/console/captures/{id}/blocks`: one block of a graph of memory with its neighbours.

use super::capture_path;
use super::picture::BlockPicture;
use super::prelude::*;
use crate::operations::{BlockQuery, FoundBlock, find_block};
use crate::store::CaptureId;
use unslide_captures_formats::memory_graph::{
    BlockDetail, BlockSummary, MemberLabel, NeighbourRow, PathStep, format_path,
};
use unslide_site::{build_link, bytes, counted, grouped};

/// A list of blocks, each with a link to its page.
struct BlockList {
    /// The anchor of the list.
    id: &'static str,
    heading: &'static str,
    caption: String,
    columns: &'static [&'static str],
    lines: Vec<BlockLine>,
}

struct BlockLine {
    /// The page of the block; `None` for a reference from outside of the heap.
    href: Option<String>,
    text: String,
    cells: Vec<String>,
}

#[derive(Template)]
#[template(path = "captures/block.html", askama = escaping)]
struct BlockPage {
    shell: Shell,
    capture: String,
    /// The block's sizes in one line.
    facts: String,
    is_leaked: bool,
    /// The shortest way from a root as one text; empty if it has one step at most.
    path: String,
    picture: BlockPicture,
    lists: Vec<BlockList>,
}

pub async fn render_page(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let query = read_form(&state);
    let (capture, found, reservation) = find_block(&symbolication, &signed.access, &id, &query).await?;
    let FoundBlock { block: detail, class } = &found;
    let links = BlockLinks { id: capture.id };
    let mut lists = vec![
        links.list_path(&detail.block.path),
        links.list_referrers(detail),
        links.list_references(detail),
        links.list_kept(detail),
    ];
    if let Some(class) = class {
        lists.push(BlockList {
            id: "class",
            heading: "Blocks of this class",
            caption: format!("{}, those that keep most memory alive", counted_blocks(class.count)),
            columns: &SUMMARY_COLUMNS,
            lines: class.blocks.iter().map(|row| links.summary_line(row)).collect(),
        });
    }
    let block = &detail.block;
    let page = BlockPage {
        shell: Shell::for_viewer(signed.viewer, "captures", format!("{} {}", block.class, block.address)),
        capture: capture_path(capture.id),
        facts: format!("{} · {} would be free without it", bytes(block.bytes), bytes(block.retained)),
        is_leaked: block.path.is_empty(),
        path: if block.path.len() > 1 { format_path(&block.path) } else { String::new() },
        picture: BlockPicture::from_detail(detail, |address| links.block_path(address)),
        lists: lists.into_iter().filter(|list| !list.lines.is_empty()).collect(),
    };
    let bytes = page.render().map_err(Problem::internal)?.into_bytes().into();
    Ok(html_answer(ReservedAnswer { bytes, reservation }))
}

const REFERENCE_COLUMNS: [&str; 4] = ["Block", "Address", "By", "Place"];
const SUMMARY_COLUMNS: [&str; 4] = ["Block", "Address", "Keeps alive", "By itself"];

/// Reads the field of the form, which takes an address or a class, or the parameter of a link.
fn read_form(state: &PageState) -> BlockQuery {
    let address = state.get_text("address");
    match state.get_text("block") {
        Some(text) if text.starts_with("0x") => BlockQuery { address: Some(text), class: None },
        Some(text) => BlockQuery { address: None, class: Some(text) },
        None => BlockQuery { address, class: state.get_text("class") },
    }
}

fn counted_blocks(count: u64) -> String {
    counted(i64::try_from(count).unwrap_or(i64::MAX), "block", "blocks")
}

/// The lists of a block of one capture.
struct BlockLinks {
    id: CaptureId,
}

impl BlockLinks {
    fn block_path(&self, address: &str) -> String {
        build_link(&format!("{}/blocks", capture_path(self.id)), &[("address", Some(address))])
    }

    fn list_path(&self, path: &[PathStep]) -> BlockList {
        let line = |step: &PathStep| BlockLine {
            href: Some(self.block_path(&step.address)),
            text: match step.left_out {
                0 => step.class.clone(),
                left_out => format!("… {} more … {}", grouped(left_out), step.class),
            },
            cells: vec![
                step.address.clone(),
                step.by.clone(),
                format_place(step.offset, step.member.as_ref()),
            ],
        };
        BlockList {
            id: "path",
            heading: "What keeps it alive",
            caption: "The shortest way from a root, each block with the reference to it".to_owned(),
            columns: &REFERENCE_COLUMNS,
            lines: path.iter().map(line).collect(),
        }
    }

    fn list_referrers(&self, detail: &BlockDetail) -> BlockList {
        BlockList {
            id: "referrers",
            heading: "What refers to it",
            caption: counted_references(detail.referrer_count),
            columns: &REFERENCE_COLUMNS,
            lines: detail.referrers.iter().map(|row| self.reference_line(row)).collect(),
        }
    }

    fn list_references(&self, detail: &BlockDetail) -> BlockList {
        BlockList {
            id: "references",
            heading: "What it refers to",
            caption: counted_references(detail.reference_count),
            columns: &REFERENCE_COLUMNS,
            lines: detail.references.iter().map(|row| self.reference_line(row)).collect(),
        }
    }

    fn reference_line(&self, row: &NeighbourRow) -> BlockLine {
        let by = if row.keeps_alive { row.by.clone() } else { format!("{}, keeps nothing alive", row.by) };
        let is_block = !row.class.is_empty();
        BlockLine {
            href: is_block.then(|| self.block_path(&row.address)),
            text: if is_block { row.class.clone() } else { "outside of the heap".to_owned() },
            cells: vec![row.address.clone(), by, format_place(row.offset, row.member.as_ref())],
        }
    }

    fn list_kept(&self, detail: &BlockDetail) -> BlockList {
        BlockList {
            id: "keeps",
            heading: "What it keeps alive",
            caption: format!("{} that only it keeps alive directly", counted_blocks(detail.keeps_count)),
            columns: &SUMMARY_COLUMNS,
            lines: detail.keeps.iter().map(|row| self.summary_line(row)).collect(),
        }
    }

    fn summary_line(&self, row: &BlockSummary) -> BlockLine {
        BlockLine {
            href: Some(self.block_path(&row.address)),
            text: row.class.clone(),
            cells: vec![row.address.clone(), bytes(row.retained), bytes(row.bytes)],
        }
    }
}

fn counted_references(count: u64) -> String {
    counted(i64::try_from(count).unwrap_or(i64::MAX), "reference", "references")
}

/// Returns the member of a reference, or else its offset.
fn format_place(offset: Option<u32>, member: Option<&MemberLabel>) -> String {
    match (member, offset) {
        (Some(member), _) => member.describe(),
        (None, Some(offset)) => format!("offset {offset}"),
        (None, None) => String::new(),
    }
}
