//! `GET /v1/captures/{id}/blocks`.

use super::{FoundAnalysis, analysis};
use crate::capture::CaptureKind;
use crate::keys::CaptureKeys;
use crate::operations::prelude::*;
use crate::store::Capture;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use std::sync::Arc;
use unslide_api::feature::operation::{Reservation, SymbolsOfReport};
use unslide_captures_formats::memory_graph::{
    BlockDetail, ClassBlocks, GraphAnalysis, MemoryFile, MemoryGraph, MemoryGraphLimits, MemoryTotals,
    read_memory,
};
use unslide_captures_formats::profile::ProfileImage;
use unslide_symbolicate::SymbolNeed;

/// How much of a graph is read for one request. `unslide memory-graph` reads larger ones.
const GRAPH_LIMITS: MemoryGraphLimits = MemoryGraphLimits { nodes: 1 << 20, references: 1 << 22 };
/// The most bytes of a graph's file.
const MOST_FILE_BYTES: u64 = 128 << 20;
/// Bytes that a node and a reference take while a graph is analysed: see [`MemoryGraphLimits`].
const NODE_BYTES: u64 = 70;
const REFERENCE_BYTES: u64 = 12;
/// Bytes of the answer: its lists are bounded.
const ANSWER_BYTES: u64 = 1 << 20;

/// The block of a graph that is asked for: `address` or `class`.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BlockQuery {
    /// An address in the block, in hexadecimal digits.
    #[param(max_length = 18, example = "0x60000210c0a0")]
    pub address: Option<String>,
    /// A class by the name that lists show: its block that retains most, with others of it.
    #[param(max_length = 1_024, example = "Shop.Cart")]
    pub class: Option<String>,
}

/// A block of a graph of memory.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FoundBlock {
    /// The block: `address`, `class`, `bytes` and `retained`; `path`, the shortest way to it from a root; `referrers` of
    /// `referrer_count`, what refers to it; `references` of `reference_count`, what it refers to; and `keeps` of `keeps_count`, the blocks that only it keeps alive directly.
    #[schema(value_type = Object)]
    pub block: BlockDetail,
    /// Of a class: how many blocks it has, and at most 100 of them, those that retain most first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub class: Option<ClassBlocks>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a block of a memory graph
///
/// Says what keeps a block alive, what refers to it and what it keeps alive, for any block or class of a capture of the kind
/// `memory_graph`. A graph may have up to 1,048,576 blocks and 4,194,304 references.
#[utoipa::path(get, path = "/v1/captures/{id}/blocks", tag = "captures", operation_id = "get_capture_block",
    params(("id" = Uuid, Path, description = "The capture's id."), BlockQuery),
    responses((status = 200, description = "The block.", body = FoundBlock), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_capture_block(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<BlockQuery>,
) -> Result<Response, Problem> {
    let (_, found, reservation) = find_block(&symbolication, &access, &id, &query).await?;
    let bytes = serde_json::to_vec(&found).map_err(Problem::internal)?.into();
    Ok(([(CONTENT_TYPE, "application/json")], ReservedAnswer { bytes, reservation }).into_response())
}

/// A block by an address in it, or by its class.
enum Wanted {
    Address(u64),
    Class(String),
}

impl BlockQuery {
    fn parse_wanted(&self) -> Result<Wanted, Problem> {
        let wrong = |detail| Err(Problem::new(Kind::InvalidParameter, detail));
        match (&self.address, &self.class) {
            (Some(address), None) => {
                let digits = address.strip_prefix("0x").unwrap_or(address);
                match u64::from_str_radix(digits, 16) {
                    Ok(address) => Ok(Wanted::Address(address)),
                    Err(_) => wrong("address: it needs hexadecimal digits, such as 0x60000210c0a0"),
                }
            }
            (None, Some(class)) => Ok(Wanted::Class(class.clone())),
            _ => wrong("address, class: give one of them"),
        }
    }
}

/// Finds a block of a capture, with a reservation for the answer.
///
/// # Errors
/// [`Kind::InvalidParameter`] if the capture is no graph, or is too large; [`Kind::NotFound`]; as [`analysis`].
pub async fn find_block(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    id: &str,
    query: &BlockQuery,
) -> Result<(Capture, FoundBlock, Reservation), Problem> {
    let wanted = query.parse_wanted()?;
    let tenant = access.tenant();
    let FoundAnalysis { capture, json, mut reservation } =
        analysis(&symbolication.storage, access, "id", id).await?;
    let checked = move || check_graph(&capture, &json).map(|size| (capture, size));
    let (capture, size) = symbolication.capacity.cpu.run_for(tenant, checked).await??;
    reservation.reserve_more(size.reserved_bytes())?;
    let key = CaptureKeys::new(tenant, capture.id).part("file");
    let file = symbolication.storage.objects.get(&key, size.file).await?;
    let file = file.ok_or_else(|| Problem::internal(format!("the file {key} is gone")))?.bytes;
    let graph = symbolication.capacity.cpu.run_for(tenant, move || read_graph(&file)).await??;
    let need = |image: &ProfileImage| {
        let (debug_id, system) = (image.debug_id?, image.is_system());
        Some(SymbolNeed { debug_id, cpu: None, system, name: image.name.clone() })
    };
    let needs = graph.list_unnamed_images().into_iter().filter_map(need).collect();
    let (cached, cold) = SymbolsOfReport::from_cache(symbolication, tenant, needs, Arc::default());
    let symbols = cached.fetch_rest(symbolication, tenant, cold).await;
    let work = move || {
        let mut graph = graph;
        graph.name_classes(&|id| symbols.get(id));
        answer_query(&graph, &wanted)
    };
    let found = symbolication.capacity.cpu.run_for(tenant, work).await??;
    Ok((capture, found, reservation))
}

/// The size of a graph, by its capture and its analysis.
struct GraphSize {
    file: u64,
    totals: MemoryTotals,
}

impl GraphSize {
    /// Returns the bytes that the file, the graph and the answer take.
    fn reserved_bytes(&self) -> u64 {
        let graph = self.totals.blocks * NODE_BYTES + self.totals.references * REFERENCE_BYTES;
        // The names of classes and regions are in the file.
        self.file * 2 + graph + ANSWER_BYTES
    }
}

/// Checks that a capture is a graph that may be read for one request.
fn check_graph(capture: &Capture, json: &Bytes) -> Result<GraphSize, Problem> {
    #[derive(Deserialize)]
    struct AnalysedGraph {
        source: String,
        totals: MemoryTotals,
    }
    #[derive(Deserialize)]
    struct Analysed {
        graph: Option<AnalysedGraph>,
    }
    let wrong = |detail: String| Problem::new(Kind::InvalidParameter, detail);
    if capture.kind != CaptureKind::MemoryGraph {
        return Err(wrong("id: the capture is no graph of memory".to_owned()));
    }
    if json.is_empty() {
        return Err(wrong("id: the capture has no analysis yet".to_owned()));
    }
    let analysed: Analysed = serde_json::from_slice(json).map_err(Problem::internal)?;
    let graph = analysed.graph.filter(|graph| graph.source == "memory_graph");
    let totals =
        graph.ok_or_else(|| wrong("id: the file has no references, so no block is found".to_owned()))?.totals;
    let file = capture.files.iter().find(|file| file.name == "file").map_or(0, |file| file.size);
    let MemoryGraphLimits { nodes, references } = GRAPH_LIMITS;
    if totals.blocks > nodes as u64 || totals.references > references as u64 || file > MOST_FILE_BYTES {
        return Err(wrong(format!(
            "id: the graph has {} blocks, {} references and {file} bytes; up to {nodes}, {references} and {MOST_FILE_BYTES} \
             are read for a request. Use `unslide memory-graph --block`",
            totals.blocks, totals.references
        )));
    }
    Ok(GraphSize { file, totals })
}

fn read_graph(file: &Bytes) -> Result<Box<MemoryGraph>, Problem> {
    match read_memory(&file[..], &GRAPH_LIMITS).map_err(Problem::internal)? {
        MemoryFile::Graph(graph) => Ok(graph),
        MemoryFile::Text(_) => Err(Problem::internal("a graph of memory has become a text")),
    }
}

fn answer_query(graph: &MemoryGraph, wanted: &Wanted) -> Result<FoundBlock, Problem> {
    let missing = |detail: String| Problem::new(Kind::NotFound, detail);
    let analysis = GraphAnalysis::from_graph(graph);
    let (node, class) = match wanted {
        Wanted::Address(address) => {
            let node = graph.node_at(*address);
            (node.ok_or_else(|| missing(format!("no block has the address {address:#x}")))?, None)
        }
        Wanted::Class(name) => {
            let node = analysis.largest_of_class(name);
            let node = node.ok_or_else(|| missing(format!("no block is of the class {name:?}")))?;
            (node, Some(analysis.blocks_of_class(name)))
        }
    };
    let mut found = FoundBlock { block: analysis.describe_neighbours(node), class };
    found.block.shorten_names();
    if let Some(class) = &mut found.class {
        class.shorten_names();
    }
    Ok(found)
}
