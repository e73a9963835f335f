//! `unslide cells run`: a command of this program, once for each cell.

use super::connect_directory;
use crate::configuration::{Configured, load_cells};
use crate::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_store::cells::list_cells;

/// Arguments of `unslide cells run`.
#[derive(Args)]
#[command(after_help = "\
The cell of these settings has these settings, and each other one the file of its name in `cells.files`. Variables UNSLIDE_SECTION__KEY
count for the cell of these settings alone.

Exit code 0 means that the command ended with 0 for every cell of the directory.

Examples:
  unslide cells run audit
  unslide cells run --config eu.toml -- config check --connect
  unslide cells run tenant list")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// A command of this program with its arguments, but for --config
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The end of the command for one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellEnd {
    Done,
    Failed,
}

/// Runs the command for each cell, one after the other.
pub fn run(arguments: &Arguments) -> Outcome {
    let command = &arguments.command;
    if command.first().is_some_and(|name| name == "cells") || command.iter().any(|word| is_config(word)) {
        return Err(CommandError::usage(
            "the command is none of `unslide cells`, and each cell has a --config of its own",
        )
        .into());
    }
    let settings = load_cells(&arguments.configured)?;
    let mut files: BTreeMap<String, Option<PathBuf>> = BTreeMap::new();
    for (name, file) in &settings.cells.files {
        files.insert(name.clone(), Some(file.clone()));
    }
    // The settings may be those of a door alone.
    if !settings.cells.name.is_empty() {
        files.insert(settings.cells.name.clone(), arguments.configured.config.clone());
    }
    let mut ends = BTreeMap::new();
    match block_on(list_names(&settings)) {
        Ok(names) => {
            for name in names.into_iter().filter(|name| !files.contains_key(name)) {
                say!("cell {name}: cells.files has no settings of it");
                ends.insert(name, CellEnd::Failed);
            }
        }
        Err(error) => note!("{error}; cells that cells.files does not name are left out"),
    }
    let program = std::env::current_exe()?;
    for (name, file) in &files {
        say!("cell {name}:");
        let is_own = *name == settings.cells.name;
        let done = build_command(&program, command, file.as_deref(), is_own).status()?.success();
        ends.insert(name.clone(), if done { CellEnd::Done } else { CellEnd::Failed });
    }
    let (summary, exit) = sum_up(&ends);
    say!("{summary}");
    Ok(exit)
}

fn is_config(word: &str) -> bool {
    word == "--config" || word.starts_with("--config=")
}

async fn list_names(settings: &unslide_door::Config) -> Result<Vec<String>, BoxError> {
    let directory = connect_directory(settings).await?;
    let cells = list_cells(&directory).await?;
    Ok(cells.into_iter().map(|cell| cell.name).collect())
}

/// Builds the process for one cell.
fn build_command(program: &Path, command: &[String], file: Option<&Path>, is_own: bool) -> Command {
    let mut process = Command::new(program);
    process.args(command);
    if let Some(file) = file {
        process.arg("--config").arg(file);
    }
    if !is_own {
        process.env_remove("UNSLIDE_CONFIG");
        for (name, _) in std::env::vars_os() {
            let is_setting = |name: &str| name.starts_with("UNSLIDE_") && name.contains("__");
            if name.to_str().is_some_and(is_setting) {
                process.env_remove(name);
            }
        }
    }
    process
}

/// Adds up the ends: the last line, and the exit code.
fn sum_up(ends: &BTreeMap<String, CellEnd>) -> (String, Exit) {
    let failed: Vec<&str> =
        ends.iter().filter(|(_, end)| **end == CellEnd::Failed).map(|(name, _)| name.as_str()).collect();
    let done = ends.len() - failed.len();
    match failed.is_empty() {
        true => (format!("{} cells: {done} done", ends.len()), Exit::Ready),
        false => (
            format!("{} cells: {done} done, {} failed ({})", ends.len(), failed.len(), failed.join(", ")),
            Exit::Failed,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_last_line_adds_up_and_one_failure_fails_all() {
        let ends = |last| BTreeMap::from([("eu".to_owned(), CellEnd::Done), ("us".to_owned(), last)]);
        assert_eq!(sum_up(&ends(CellEnd::Done)), ("2 cells: 2 done".to_owned(), Exit::Ready));
        let failed = ("2 cells: 1 done, 1 failed (us)".to_owned(), Exit::Failed);
        assert_eq!(sum_up(&ends(CellEnd::Failed)), failed);
    }

    #[test]
    fn another_cell_gets_its_own_settings_alone() {
        let words = ["audit".to_owned(), "--json".to_owned()];
        let file = Path::new("us.toml");
        let process = build_command(Path::new("unslide"), &words, Some(file), false);
        let arguments: Vec<&OsStr> = process.get_args().collect();
        assert_eq!(arguments, ["audit", "--json", "--config", "us.toml"]);
        assert!(process.get_envs().any(|(name, value)| name == "UNSLIDE_CONFIG" && value.is_none()));
        let own = build_command(Path::new("unslide"), &words, None, true);
        assert_eq!((own.get_args().count(), own.get_envs().count()), (2, 0));
    }
}
