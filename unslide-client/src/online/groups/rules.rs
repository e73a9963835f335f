//! `unslide groups rules`: a tenant's own rules of grouping.

use crate::prelude::*;
use reqwest::Method;
use std::io;
use std::path::{Path, PathBuf};
use unslide_cli::confirm_action;
use unslide_cli::listing::item_text;
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::grouping::rules::MOST_TEXT_BYTES;

const RULES: &str = "/v1/grouping-rules";

/// Commands on the rules.
#[derive(Subcommand)]
#[command(after_help = "\
A file has one rule a line; the first that fits a function decides:

  # What the logger reports is the bug of its caller.
  ignore    function  Shop.Log.*
  not-app   image     Analytics*
  app       image     ShopKit
  ignore    file      */Generated/*
  sentinel  function  Shop.Router.open*

The key needs the scope tenant:admin.")]
pub enum RulesAction {
    /// Show the rules, and how far stored reports are grouped by them
    Show(ServerArguments),
    /// Say what a file's rules would do to the newest stored reports
    Try {
        #[command(flatten)]
        target: ServerArguments,
        /// The file with the rules
        file: PathBuf,
        /// How many reports to try them on, at most 2000
        #[arg(long, value_name = "NUMBER", default_value_t = 500)]
        reports: u32,
    },
    /// Group by a file's rules: new reports at once, stored ones in the background; on a terminal it asks first
    Set {
        #[command(flatten)]
        target: ServerArguments,
        /// The file with the rules
        file: PathBuf,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Group without rules again; on a terminal it asks first
    Clear {
        #[command(flatten)]
        target: ServerArguments,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Group by the rules before the last change again; a second time undoes that. On a terminal it asks first
    Restore {
        #[command(flatten)]
        target: ServerArguments,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// The API that has the rules.
#[derive(Args)]
pub struct ServerArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Shows, tries or changes the rules.
pub async fn run(action: RulesAction) -> Outcome {
    match action {
        RulesAction::Show(target) => show_rules(&target).await,
        RulesAction::Try { target, file, reports } => try_out(&target, &read_text(&file)?, reports).await,
        RulesAction::Set { target, file, yes } => set_rules(&target, &read_text(&file)?, yes).await,
        RulesAction::Restore { target, yes } => restore_rules(&target, yes).await,
        RulesAction::Clear { target, yes } => set_rules(&target, "", yes).await,
    }
}

async fn show_rules(target: &ServerArguments) -> Outcome {
    let found: Value = Client::new(&target.server)?.get(RULES).await?;
    if target.json {
        Console::get().print_json(&found)?;
        return Ok(Exit::Ready);
    }
    let rules = &found["rules"];
    if item_text(rules, "text").is_empty() {
        say!("no rules");
    } else {
        Console::get().say_lines(item_text(rules, "text").trim_end());
    }
    if !rules.is_null() {
        say!("# {}", format_state(rules));
    }
    Ok(Exit::Ready)
}

async fn try_out(target: &ServerArguments, rules: &str, reports: u32) -> Outcome {
    let client = Client::new(&target.server)?;
    let effect: Value =
        client.post(&format!("{RULES}/trial"), &json!({"text": rules, "reports": reports})).await?;
    if target.json {
        Console::get().print_json(&effect)?;
        return Ok(Exit::Ready);
    }
    say!(
        "of {} reports: would merge {} groups, split {}, move {} reports; {} could not be read",
        effect["looked"],
        effect["merged"],
        effect["split"],
        effect["moved"],
        effect["unread"]
    );
    for example in effect["examples"].as_array().into_iter().flatten() {
        say!(
            "{}\t{} -> {}",
            item_text(example, "report"),
            item_text(example, "from_title"),
            item_text(example, "to_title")
        );
    }
    Ok(Exit::Ready)
}

async fn restore_rules(target: &ServerArguments, yes: bool) -> Outcome {
    let found: Value = Client::new(&target.server)?.get(RULES).await?;
    let Some(previous) = found["rules"]["previous"].as_str() else {
        return Err(CommandError::usage("no rules were set, so there are none before them").into());
    };
    set_rules(target, previous, yes).await
}

async fn set_rules(target: &ServerArguments, rules: &str, yes: bool) -> Outcome {
    confirm_action("This moves stored reports of the tenant to other groups.", yes)?;
    let client = Client::new(&target.server)?;
    let changed: Value = client.send_json(Method::PUT, RULES, &json!({"text": rules})).await?;
    if target.json {
        Console::get().print_json(&changed)?;
    } else {
        say!("{}", format_state(&changed));
    }
    Ok(Exit::Ready)
}

/// Describes which version it is, and how many stored reports are grouped by it.
fn format_state(rules: &Value) -> String {
    format!(
        "version {} of {}, {}: {} reports looked at, {} moved, {} not readable",
        rules["version"],
        item_text(rules, "changed_at"),
        item_text(rules, "status"),
        rules["looked"],
        rules["moved"],
        rules["unread"]
    )
}

/// Returns the rules in a file, or none without one.
pub fn read_rules(path: Option<&Path>) -> Result<GroupingRules, CommandError> {
    let Some(path) = path else { return Ok(GroupingRules::default()) };
    parse_rules(path, &read_file(path)?)
}

/// Reads the text of a file, and checks that its rules are valid.
fn read_text(path: &Path) -> Result<String, CommandError> {
    let text = read_file(path)?;
    parse_rules(path, &text)?;
    Ok(text)
}

fn read_file(path: &Path) -> Result<String, CommandError> {
    let cannot = |error: io::Error| CommandError::cannot_read(path, error);
    let size = std::fs::metadata(path).map_err(cannot)?.len();
    if size > MOST_TEXT_BYTES as u64 {
        let text = format!("{} has {size} bytes; rules have at most {MOST_TEXT_BYTES}", path.display());
        return Err(CommandError::usage(text));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

fn parse_rules(path: &Path, text: &str) -> Result<GroupingRules, CommandError> {
    GroupingRules::parse(text).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CommandError::usage(format!("{}: {}", path.display(), problems.join("; ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_problems_is_refused_with_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grouping.rules");
        std::fs::write(&path, "ignore function Log.*\nhide image *\n").unwrap();
        let error = read_rules(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("line 2: unknown action \"hide\""), "{error}");
        std::fs::write(&path, "ignore function Log.*\n").unwrap();
        assert_eq!(read_rules(Some(&path)).unwrap().len(), 1);
        assert!(read_rules(None).unwrap().is_empty());
    }
}
