//! The crashed stack as a code block. Frames, functions and threads that are left out are counted.

use super::document::MarkdownDocument;
use super::quote::{flatten_text, quote_lines, quote_text};
use crate::text::threads::{CallView, FrameView, ThreadView};
use std::borrow::Cow;
use std::fmt::Write;

/// The innermost and the outermost frames that are shown.
const INNERMOST_FRAMES: usize = 50;
const OUTERMOST_FRAMES: usize = 10;
/// The maximum number of functions shown of one frame.
const CALLS_LIMIT: usize = 8;

/// Writes the first thread, which is the crashed one. Counts the other threads.
pub(super) fn write_stack(
    threads: &[ThreadView],
    id: &str,
    is_about_memory: bool,
    out: &mut MarkdownDocument,
) {
    out.push_heading("Stack");
    let Some(thread) = threads.first() else {
        out.push_paragraph("The report has no stack.");
        return;
    };
    let total = thread.frames.len();
    let left_out = total.saturating_sub(INNERMOST_FRAMES + OUTERMOST_FRAMES);
    let mut about = describe_thread(thread);
    let _ = write!(about, " {} of {total} frames are shown.", total - left_out);
    if thread.skipped > 0 {
        let _ = write!(about, " The device left out {} frames at the innermost end.", thread.skipped);
    }
    if thread.is_sample || is_about_memory {
        about.push_str(" It does not show the cause.");
    }
    out.push_sentence(&about, &format!("report {id}, {}", thread_evidence(thread)));
    if total > 0 {
        out.push_block(&quote_lines(list_lines(thread, left_out).iter().map(String::as_str)));
    }
    if let others @ 1.. = threads.len() - 1 {
        out.push_sentence(&format!("{others} other stacks are left out."), &format!("report {id}"));
    }
}

fn describe_thread(thread: &ThreadView) -> String {
    let name = thread.name.as_ref().map(|name| format!(", {}", quote_text(name))).unwrap_or_default();
    match thread.number {
        Some(number) if thread.crashed => format!("Thread {number}{name}, crashed."),
        Some(number) => format!("Thread {number}{name}."),
        None if thread.is_javascript => "The stack of the JavaScript error.".to_owned(),
        None => format!("The stack of the event{name}."),
    }
}

fn thread_evidence(thread: &ThreadView) -> String {
    let first = thread.frames.first().map(|frame| frame.index);
    let last = thread.frames.last().map(|frame| frame.index);
    let frames = match (first, last) {
        (Some(first), Some(last)) => format!("frames {first} to {last}"),
        _ => "no frames".to_owned(),
    };
    match thread.number {
        Some(number) => format!("thread {number}, {frames}"),
        None => frames,
    }
}

fn list_lines(thread: &ThreadView, left_out: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (position, frame) in thread.frames.iter().enumerate() {
        let is_left_out = left_out > 0 && (INNERMOST_FRAMES..INNERMOST_FRAMES + left_out).contains(&position);
        if !is_left_out {
            push_frame(frame, &mut lines);
        } else if position == INNERMOST_FRAMES {
            lines.push(format!("    ({left_out} frames are left out)"));
        }
    }
    lines
}

fn push_frame(frame: &FrameView, lines: &mut Vec<String>) {
    let image = frame.image.as_deref().map_or(Cow::Borrowed("???"), |image| flatten_text(image).into());
    let head = format!("{:<4}{image}  ", frame.index);
    let guess = if frame.approximate { " [approximate]" } else { "" };
    for call in frame.calls.iter().take(CALLS_LIMIT) {
        let kind = if call.inlined { " [inlined]" } else { guess };
        lines.push(format!("{head}{}{kind}", describe_call(call)));
    }
    if frame.calls.len() > CALLS_LIMIT {
        lines.push(format!("{head}({} functions are left out)", frame.calls.len() - CALLS_LIMIT));
    }
    if frame.calls.is_empty() {
        let offset = frame.relative.map(|offset| format!(" + {offset:#x}")).unwrap_or_default();
        lines.push(format!("{head}{:#x}{offset} [{}]", frame.address, flatten_text(&frame.status)));
    }
    push_context(frame, lines);
}

/// Writes the source lines of a frame. A sign marks its own.
fn push_context(frame: &FrameView, lines: &mut Vec<String>) {
    let own = frame.calls.first().and_then(|call| call.line);
    for (number, text) in &frame.context {
        let sign = if own == Some(*number) { '>' } else { ' ' };
        lines.push(format!("    {sign} {number:>5} | {}", flatten_text(text)));
    }
}

fn describe_call(call: &CallView) -> String {
    let function = flatten_text(&call.function);
    let Some(file) = call.file.as_deref().map(flatten_text) else { return function };
    match call.line {
        Some(line) => format!("{function} ({file}:{line})"),
        None => format!("{function} ({file})"),
    }
}
