//! `unslide completions` and `unslide man`: the command line for shells and for `man`.

use crate::prelude::*;
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{self, Stdio};

/// The program's name, which shells complete.
const PROGRAM: &str = "unslide";

/// Arguments of the command `unslide completions`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unslide completions zsh > \"${fpath[1]}/_unslide\"
  unslide completions bash > ~/.local/share/bash-completion/completions/unslide
  unslide completions fish > ~/.config/fish/completions/unslide.fish")]
pub struct CompletionsArguments {
    /// The shell that reads the script
    shell: Shell,
}

/// Arguments of the command `unslide man`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unslide man upload
  unslide man upload > unslide-upload.1
  unslide man --dir ~/.local/share/man/man1")]
pub struct ManArguments {
    /// The command, such as `reports show`; without one the page of the program
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    path: Vec<String>,
    /// Write the pages of all commands to this folder, which is made if it does not exist
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// Prints the script that completes the command line in a shell.
pub fn print_completions(arguments: &CompletionsArguments, mut line: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut line, PROGRAM, &mut script);
    Console::get().write_bytes(&script);
    Ok(Exit::Ready)
}

/// Prints a page of the manual, or writes all of them.
pub fn write_pages(arguments: &ManArguments, mut line: clap::Command) -> Outcome {
    line.build();
    if let Some(folder) = &arguments.dir {
        let failed = |error| CommandError::caused(format!("cannot write to {}", folder.display()), error);
        fs::create_dir_all(folder).map_err(failed)?;
        clap_mangen::generate_to(line, folder).map_err(failed)?;
        say!("the pages are in {}", folder.display());
        return Ok(Exit::Ready);
    }
    let mut command = &line;
    for name in &arguments.path {
        command = command.find_subcommand(name).ok_or_else(|| {
            CommandError::usage(format!("there is no command `{name}` in `{}`", command.get_name()))
        })?;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    if Console::get().terminal_columns().is_none() {
        Console::get().write_bytes(&page);
    } else if !show_page(&page) {
        Console::get().say_lines(&command.clone().render_long_help().to_string());
    }
    Ok(Exit::Ready)
}

/// Shows a page with `man`. Returns false if this machine has none.
fn show_page(page: &[u8]) -> bool {
    let viewer = process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut viewer) = viewer else { return false };
    let is_written = viewer.stdin.take().is_some_and(|mut input| input.write_all(page).is_ok());
    viewer.wait().is_ok_and(|status| status.success()) && is_written
}
