//! `GET /v1/reports/{id}/source-context`: the source lines around the frames of a report.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, Path, Problem, Query, ReportsRead, problems};
use unslide_api::feature::site::{VariantQuery, load_report, stored_body};
use unslide_api::feature::sources::{SourceScope, find_source_lines};
use unslide_report::text::threads::{FrameView, ThreadView};
use unslide_report::text::view::build_view;
use utoipa::ToSchema;

/// The most frames of an answer.
const FRAMES_LIMIT: usize = 1_000;

/// The source lines of a report.
#[derive(Debug, Serialize, ToSchema)]
pub struct SourceContext {
    /// The frames with source lines, those of the crashed thread first.
    #[schema(max_items = 1_000)]
    pub frames: Vec<FrameSource>,
}

/// A frame with its source lines.
#[derive(Debug, Serialize, ToSchema)]
pub struct FrameSource {
    /// The number of the thread; absent for the backtrace of an exception or of a JavaScript error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u64>,
    /// True for a frame of a JavaScript error.
    pub javascript: bool,
    /// The number of the frame in its backtrace, 0 for the innermost.
    pub frame: usize,
    /// The innermost function of the frame.
    pub function: String,
    /// The path of the source file, as the symbols have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The lines around it.
    pub context: ContextLines,
}

/// Lines of a source file, as in `symbolication.javascript` of a report.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContextLines {
    /// Number of the first line, from 1.
    pub first_line: u64,
    /// The lines, each cut to 200 bytes.
    #[schema(max_items = 11)]
    pub lines: Vec<String>,
}

problems!(Failures: InvalidParameter, NotFound, BodyNotKept);

/// Read the source lines of a report
///
/// Five lines on each side of the app's frames: of native ones from the tenant's source files, if it keeps some, and of
/// JavaScript from source maps. A path must be the same in the symbols and in the source files.
#[utoipa::path(get, path = "/v1/reports/{id}/source-context", tag = "source-context", operation_id = "get_source_context",
    params(("id" = String, Path, description = "The report's id."), VariantQuery),
    responses((status = 200, description = "The frames with source lines.", body = SourceContext), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_source_context(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<VariantQuery>,
) -> Result<Json<SourceContext>, Problem> {
    let (found, mut body) = load_report(&symbolication, &access, &id, query.variant.unwrap_or(0)).await?;
    let scope = SourceScope::for_report(&access, &found.listed.app);
    let lines = find_source_lines(&symbolication, scope, &mut body, None).await?;
    let work = move || {
        let mut seen = build_view(&stored_body::read_report(&body.json)?);
        lines.add_to_threads(&mut seen.threads);
        let frames = seen.threads.iter().flat_map(|thread| {
            thread.frames.iter().filter_map(|frame| FrameSource::from_frame(thread, frame))
        });
        Ok::<_, Problem>(SourceContext { frames: frames.take(FRAMES_LIMIT).collect() })
    };
    Ok(Json(symbolication.capacity.cpu.run_for(access.tenant(), work).await??))
}

impl FrameSource {
    /// Returns a frame with its source lines; `None` if it has none.
    fn from_frame(thread: &ThreadView, frame: &FrameView) -> Option<FrameSource> {
        let (first_line, _) = *frame.context.first()?;
        let call = frame.calls.first()?;
        Some(FrameSource {
            thread: thread.number,
            javascript: thread.is_javascript,
            frame: frame.index,
            function: call.function.clone(),
            path: call.path.clone(),
            line: call.line,
            context: ContextLines {
                first_line,
                lines: frame.context.iter().map(|(_, text)| text.clone()).collect(),
            },
        })
    }
}
