//! `/console/reports/{id}/explain`: the explanation of each frame of a backtrace.

use crate::components::rows::report_path;
use crate::components::stack::frame_status;
use crate::prelude::*;
use unslide_api::feature::site::explain_stored;
use unslide_site::{Viewer, html_answer, text_or};
use unslide_store::symbol_lookups::SymbolLookup;
use unslide_symbolicate::{
    ExplainedBacktrace, ExplainedFrame, ExplainedFunction, ExplainedImage, ExplainedJavaScriptFrame,
    Explanation, FunctionSource,
};

#[derive(Template)]
#[template(path = "console/pages/report_pages/explain.html", askama = escaping)]
struct ExplainPage {
    shell: Shell,
    report: String,
    heading: String,
    /// The title of the group, if it comes from this backtrace.
    group: Option<String>,
    frames: Vec<ReasonedFrame>,
    truncated: bool,
}

struct ReasonedFrame {
    index: usize,
    status: (&'static str, &'static str, &'static str),
    name: String,
    image: String,
    reason: String,
    grouping: Vec<GroupedFunction>,
    steps: Vec<(&'static str, String)>,
    calls: Vec<String>,
}

/// A function, and whether it counts for the group.
struct GroupedFunction {
    name: String,
    counted: bool,
    reason: &'static str,
    rule: Option<String>,
}

pub async fn render_page(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (variant, thread) =
        (state.parse_number("variant")?.unwrap_or(0), state.parse_number("thread")?.unwrap_or(0));
    let (viewer, report) = (signed.viewer, report_path(&id, variant, ""));
    let finish = move |explanation: &Explanation, lookups: &[SymbolLookup]| {
        let page = page_of(viewer, report, explanation, lookups, thread)?;
        Ok(page.render().map_err(Problem::internal)?.into_bytes())
    };
    let answer = explain_stored(&symbolication, &signed.access, &id, variant, finish).await?;
    Ok(html_answer(answer))
}

fn page_of(
    viewer: Viewer,
    report: String,
    explanation: &Explanation,
    lookups: &[SymbolLookup],
    thread: usize,
) -> Result<ExplainPage, Problem> {
    if thread == explanation.backtraces.len() && !explanation.javascript.is_empty() {
        return Ok(page_of_javascript(viewer, report, explanation));
    }
    let backtrace = explanation.backtraces.get(thread);
    let backtrace =
        backtrace.ok_or_else(|| Problem::new(Kind::NotFound, "the report has no such backtrace"))?;
    Ok(ExplainPage {
        shell: Shell::for_viewer(viewer, "reports", "Explanation").with_about(format_heading(backtrace)),
        report,
        heading: format_heading(backtrace),
        group: explanation.grouping.as_ref().filter(|_| backtrace.counts).map(|group| group.title.clone()),
        frames: backtrace
            .frames
            .iter()
            .map(|frame| explain_frame(frame, &explanation.images, lookups))
            .collect(),
        truncated: explanation.truncated,
    })
}

fn format_heading(backtrace: &ExplainedBacktrace) -> String {
    match (backtrace.origin, backtrace.thread) {
        ("stack_deadlock" | "stack_oom", _) => "Last sampled stack".to_owned(),
        (_, Some(number)) if backtrace.crashed => format!("Thread {number}, crashed"),
        (_, Some(number)) => format!("Thread {number}"),
        ("profile" | "call_stack_tree", None) => "Profile".to_owned(),
        (_, None) => "Exception".to_owned(),
    }
}

/// Creates the page of a JavaScript error. Its frames are numbered as a backtrace after the last one.
fn page_of_javascript(viewer: Viewer, report: String, explanation: &Explanation) -> ExplainPage {
    ExplainPage {
        shell: Shell::for_viewer(viewer, "reports", "Explanation"),
        report,
        heading: "JavaScript".to_owned(),
        group: explanation.grouping.as_ref().map(|group| group.title.clone()),
        frames: explanation.javascript.iter().map(reasoned_javascript).collect(),
        truncated: explanation.truncated,
    }
}

fn reasoned_javascript(frame: &ExplainedJavaScriptFrame) -> ReasonedFrame {
    let mut steps = Vec::new();
    let mut step = |name, value: Option<String>| steps.extend(value.map(|value| (name, value)));
    step("Bundle", frame.bundle.clone());
    step("Debug id", frame.debug_id.map(|id| id.to_string()));
    step("Line in the bundle", frame.bundle_line.map(|line| line.to_string()));
    step("Column in the bundle", frame.bundle_column.map(|column| column.to_string()));
    step("Source", frame.file.clone());
    step("Line", frame.line.map(|line| line.to_string()));
    step("Name from", frame.function_source.map(|source| source.as_str().replace('_', " ")));
    let approximate = frame.function_source == Some(FunctionSource::Caller);
    ReasonedFrame {
        index: frame.index,
        status: frame_status(frame.status.as_str(), approximate),
        name: frame.function.as_deref().unwrap_or("(anonymous)").to_owned(),
        image: frame.bundle.as_deref().unwrap_or("the engine").to_owned(),
        reason: frame.reason.clone(),
        grouping: vec![GroupedFunction {
            name: "This frame".to_owned(),
            counted: frame.counted,
            reason: if frame.in_app { "it is of the app" } else { "it is not of the app" },
            rule: None,
        }],
        steps,
        calls: Vec::new(),
    }
}

fn explain_frame(
    frame: &ExplainedFrame,
    images: &[ExplainedImage],
    lookups: &[SymbolLookup],
) -> ReasonedFrame {
    let image = frame.image.and_then(|image| images.get(image as usize));
    let name = |image: &ExplainedImage| {
        text_or(image.path.rsplit('/').next().unwrap_or_default(), "unnamed image").to_owned()
    };
    ReasonedFrame {
        index: frame.index,
        status: frame_status(frame.status.as_str(), frame.approximate),
        name: frame.calls.first().cloned().unwrap_or_else(|| "no name".to_owned()),
        image: image.map_or_else(|| "no image".to_owned(), name),
        reason: frame.reason.clone(),
        grouping: frame.grouping.iter().map(grouped_function).collect(),
        steps: list_steps(frame, image, lookups),
        calls: frame.calls.clone(),
    }
}

fn grouped_function(function: &ExplainedFunction) -> GroupedFunction {
    GroupedFunction {
        name: text_or(&function.function, "This frame").to_owned(),
        counted: function.counted,
        reason: function.reason,
        rule: function.rule.clone(),
    }
}

/// Returns the steps from the address to the function, each with its evidence.
fn list_steps(
    frame: &ExplainedFrame,
    image: Option<&ExplainedImage>,
    lookups: &[SymbolLookup],
) -> Vec<(&'static str, String)> {
    let mut steps = Vec::new();
    let mut step = |name, value: Option<String>| steps.extend(value.map(|value| (name, value)));
    step("Address in the report", frame.instruction_addr.clone());
    step(
        "Address without tags",
        frame.cleaned.clone().filter(|clean| Some(clean) != frame.instruction_addr.as_ref()),
    );
    step("Rule", Some(format!("{} {}", frame.rule, frame.rule_name)));
    step("Look-up address", frame.lookup_address.clone());
    step("Image", image.map(|image| image.path.clone()));
    step("Debug id", image.and_then(|image| image.debug_id).map(|id| id.to_string()));
    step("Image found by", frame.image_by.map(str::to_owned));
    step("Slide", frame.slide.clone());
    step("Address in the image", frame.lookup_relative.clone());
    step("Address in the object", frame.lookup_file_address.clone());
    let debug_id = image.and_then(|image| image.debug_id);
    for lookup in lookups.iter().filter(|lookup| Some(lookup.debug_id) == debug_id) {
        step("Looked for", Some(lookup.to_string()));
    }
    let symcache = image.and_then(|image| image.symcache.as_ref());
    step(
        "Symbols of generation",
        symcache.and_then(|cache| cache.generation).map(|number| number.to_string()),
    );
    step("Symbols of object", symcache.and_then(|cache| cache.object).map(|hash| hash.to_string()));
    step("Name from", frame.source.map(str::to_owned));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_neither_an_exception_nor_a_thread() {
        let of = |origin, thread, crashed| {
            let frames = Vec::new();
            format_heading(&ExplainedBacktrace { part: 0, origin, counts: false, thread, crashed, frames })
        };
        assert_eq!(of("stack_oom", None, false), "Last sampled stack");
        assert_eq!(of("stack_deadlock", Some(0), false), "Last sampled stack");
        assert_eq!(of("call_stack_tree", None, false), "Profile");
        assert_eq!(of("last_exception_backtrace", None, false), "Exception");
        assert_eq!(of("thread", Some(4), true), "Thread 4, crashed");
    }
}
