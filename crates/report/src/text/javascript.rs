//! The frames of a JavaScript error, for a page and for the log.

use super::log::Log;
use super::threads::{CallView, FrameView, ThreadView, ViewRoom};
use crate::report::Report;
use crate::report::javascript::{OurContext, OurJavaScriptFrame};
use std::borrow::Cow;
use std::fmt::Write;

/// Returns the frames of the report's JavaScript error as a backtrace, or `None` for any other report.
pub(super) fn build_thread_view(report: &Report<'_>, room: &mut ViewRoom) -> Option<ThreadView> {
    let ours = &report.ours.as_ref()?.javascript;
    let error = report.javascript_error().filter(|_| !ours.is_empty())?;
    let mut frames = Vec::new();
    for (index, frame) in ours.iter().enumerate() {
        if !room.take_frame() {
            break;
        }
        let missing =
            error.frames.get(index).filter(|_| frame.status == "missing" && frame.debug_id.is_some());
        let bundle = missing.and_then(|frame| error.mapped_bundle(frame));
        let command = bundle.map(|bundle| error.upload_command(bundle));
        let upload = command.map(|command| room.take_string(super::escape_line(&command).into_owned()));
        frames.push(FrameView { index, upload, ..frame_of(frame, room) });
    }
    Some(ThreadView {
        position: report.backtraces.len(),
        name: error.name.map(|name| room.take_string(super::escape_line(&name).into_owned())),
        crashed: true,
        is_javascript: true,
        frames,
        ..ThreadView::default()
    })
}

fn frame_of(frame: &OurJavaScriptFrame, room: &mut ViewRoom) -> FrameView {
    let mut text = |text: &str| room.take_string(super::escape_line(text).into_owned());
    let path = frame.file.as_deref().map(&mut text);
    let is_placed = path.is_some();
    let line = frame.line.map(u64::from);
    let place =
        line.zip(frame.column).filter(|_| !is_placed).map(|(line, column)| format!("{line}:{column}"));
    let function = function_of(frame).as_deref().map(&mut text);
    let call = (is_placed || function.is_some()).then(|| CallView {
        function: function.unwrap_or_else(|| "(anonymous)".to_owned()),
        file: path.as_deref().map(|path| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()),
        path,
        line: line.filter(|_| is_placed),
        inlined: false,
    });
    let context = frame.context.iter().flat_map(|OurContext { first_line, lines }| {
        (u64::from(*first_line)..).zip(lines).map(|(number, line)| (number, line.as_str()))
    });
    FrameView {
        context: context.map(|(number, line)| (number, text(line))).collect(),
        image: Some(text(frame.bundle.as_deref().unwrap_or("JavaScript engine"))),
        debug_id: frame.debug_id,
        system: !frame.in_app,
        status: frame.status.clone(),
        approximate: frame.approximate,
        calls: call.into_iter().collect(),
        is_mapped: is_placed,
        bundle_place: place,
        ..FrameView::default()
    }
}

/// Returns the function of a frame. A component of React is written as in the source.
fn function_of(frame: &OurJavaScriptFrame) -> Option<Cow<'_, str>> {
    let function = frame.function.as_deref()?;
    Some(if frame.is_component { format!("<{function}>").into() } else { function.into() })
}

/// Writes the frames as lines of the log: number, function, and source file or bundle with line and column.
pub(super) fn write_stack(report: &Report<'_>, out: &mut Log) {
    let frames = report.ours.iter().flat_map(|ours| &ours.javascript);
    let mut in_components = false;
    for (index, frame) in frames.enumerate() {
        if out.is_full() {
            return;
        }
        if index == 0 {
            out.push_str("\nJavaScript Stack:\n");
        }
        if frame.is_component && !in_components {
            out.push_str("\nComponent Stack:\n");
            in_components = true;
        }
        let function = function_of(frame);
        let function = super::escape_line(function.as_deref().unwrap_or("(anonymous)"));
        let file = frame.file.as_deref().or(frame.bundle.as_deref()).map(super::escape_line);
        let _ = match (file, frame.line, frame.column) {
            (Some(file), Some(line), Some(column)) => {
                writeln!(out, "{index:<3} {function} ({file}:{line}:{column})")
            }
            (Some(file), ..) => writeln!(out, "{index:<3} {function} ({file})"),
            (None, ..) => writeln!(out, "{index:<3} {function}"),
        };
    }
}
