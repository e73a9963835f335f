//! `unslide upload`: finds dSYMs, or an operating system's libraries, sends what the server lacks, and
//! waits until they are built. What a second run does stands in `docs/operations.md`.

mod find;
mod parts;
mod send;

pub use find::{find, mach_o};

use crate::boot;
use crate::client::{Client, Server};
use crate::failure::Outcome;
use clap::Args;
use find::Found;
use futures::StreamExt;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `unslide upload`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Folders that are searched for dSYMs to any depth (an Xcode archive, a build folder), or files:
    /// Mach-O files, zip, tar.gz
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// In folders, take Mach-O files outside of dSYMs as well
    #[arg(long)]
    binaries: bool,
    /// Upload symbols of an operating system, for all tenants: a DeviceSupport folder, the libraries
    /// extracted from a dyld shared cache, or a folder of libraries. Needs an operator's key
    #[arg(long)]
    system: bool,
    /// Files that are sent at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Do not wait until the server has built what was sent
    #[arg(long)]
    no_wait: bool,
}

/// Uploads, and says of each file what became of it.
pub fn run(arguments: &Arguments) -> Outcome {
    let (found, mut failed) = find::find(&arguments.paths, arguments.binaries || arguments.system);
    boot::block_on(async {
        let client = Client::new(&arguments.server)?;
        let client = if arguments.system { client.of_system() } else { client };
        let screen = Screen::new(found.len());
        let sent = futures::stream::iter(found).map(|found| {
            let (client, screen) = (client.clone(), &screen);
            async move {
                let bar = screen.bar(&found);
                let mut skipped = Vec::new();
                let result = send::send(&client, &found, &bar, !arguments.no_wait, &mut skipped).await;
                screen.done(&found, &bar, &result, &skipped);
                (found, result)
            }
        });
        let results: Vec<_> = sent.buffer_unordered(usize::from(arguments.jobs)).collect().await;
        screen.end();
        let (mut new, mut known) = (0, 0);
        for (found, result) in results {
            match result {
                Ok(send::Sent::Known) => known += 1,
                Ok(send::Sent::New(_)) => new += 1,
                Err(reason) => failed.push((found.path, reason)),
            }
        }
        if new + known == 0 && failed.is_empty() {
            let what = if arguments.system { "Mach-O file" } else { "dSYM" };
            return Err(format!("no {what} was found").into());
        }
        println!("{new} uploaded, {known} known before, {} failed", failed.len());
        for (path, reason) in &failed {
            eprintln!("unslide: {}: {reason}", path.display());
        }
        Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Progress bars on a terminal, plain lines elsewhere.
struct Screen {
    bars: MultiProgress,
    all: ProgressBar,
    terminal: bool,
}

impl Screen {
    fn new(files: usize) -> Screen {
        let terminal = std::io::stderr().is_terminal();
        let bars = MultiProgress::new();
        let all = if terminal { bars.add(ProgressBar::new(files as u64)) } else { ProgressBar::hidden() };
        all.set_style(style("{pos}/{len} files {wide_bar}"));
        Screen { bars, all, terminal }
    }

    fn bar(&self, found: &Found) -> ProgressBar {
        if !self.terminal {
            return ProgressBar::hidden();
        }
        let bar = self.bars.insert_before(&self.all, ProgressBar::new(found.size));
        bar.set_style(style("{msg:30!} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}"));
        bar.set_message(found.name.clone());
        bar
    }

    fn done(
        &self,
        found: &Found,
        bar: &ProgressBar,
        result: &Result<send::Sent, String>,
        skipped: &[String],
    ) {
        bar.finish_and_clear();
        self.all.inc(1);
        let line = match result {
            Ok(send::Sent::Known) => "known before".to_owned(),
            Ok(send::Sent::New(what)) => what.clone(),
            Err(reason) => format!("failed: {reason}"),
        };
        self.line(&format!("{}: {line}", found.path.display()));
        for skipped in skipped {
            self.line(&format!("{}: passed over: {skipped}", found.path.display()));
        }
    }

    fn line(&self, line: &str) {
        if self.terminal {
            // Above the bars; an error means that the terminal is gone.
            let _ = self.bars.println(line);
        } else {
            println!("{line}");
        }
    }

    fn end(&self) {
        self.all.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
