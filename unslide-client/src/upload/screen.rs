//! Progress bars on a terminal, plain lines elsewhere.

use super::send::{self, SendError, Sent};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use unslide_cli::symbols::Found;
use unslide_cli::{SkippedFile, inform};
use unslide_report::text::escape_for_terminal;

/// The output of an upload while it runs.
pub struct Screen {
    bars: MultiProgress,
    all: ProgressBar,
    terminal: bool,
}

impl Screen {
    /// Creates bars only if standard error is a terminal and `quiet` is false.
    pub fn new(files: usize, quiet: bool) -> Screen {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let bars = MultiProgress::new();
        let all = if terminal { bars.add(ProgressBar::new(files as u64)) } else { ProgressBar::hidden() };
        all.set_style(bar_style("{pos}/{len} files {wide_bar}"));
        Screen { bars, all, terminal }
    }

    pub fn add_bar(&self, found: &Found) -> ProgressBar {
        if !self.terminal {
            return ProgressBar::hidden();
        }
        let bar = self.bars.insert_before(&self.all, ProgressBar::new(found.size));
        bar.set_style(bar_style("{msg:30!} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}"));
        bar.set_message(escape_for_terminal(&found.name).into_owned());
        bar
    }

    pub fn finish_file(
        &self,
        found: &Found,
        bar: &ProgressBar,
        result: &Result<Sent, SendError>,
        skipped: &[SkippedFile],
    ) {
        bar.finish_and_clear();
        self.all.inc(1);
        let line = match result {
            Ok(Sent::Known(objects)) if objects.is_empty() => "known before".to_owned(),
            Ok(Sent::Known(objects)) => format!("known before: {}", send::describe_objects(objects)),
            Ok(Sent::New(objects)) => send::describe_objects(objects),
            Ok(Sent::Lacking) => "would be uploaded".to_owned(),
            Err(SendError::File(reason)) => format!("failed: {reason}"),
            // Said once, at the end.
            Err(SendError::All(_)) => return,
        };
        // Above the bars.
        self.bars.suspend(|| {
            inform!("{}: {line}", found.shown.display());
            for skipped in skipped {
                inform!("{}: skipped: {}", found.shown.display(), send::describe_skipped(skipped));
            }
        });
    }

    pub fn finish_all(&self) {
        self.all.finish_and_clear();
    }
}

fn bar_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
