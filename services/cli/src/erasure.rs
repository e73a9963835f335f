//! Commands that erase data: each counts, asks, requests the erasure and waits for its end in the same way.

use crate::listing::item_text;
use crate::{BoxError, Client, Console, Exit, Outcome, confirm_action, note, say};
use clap::Args;
use serde_json::Value;
use std::time::Duration;

/// Interval between two looks at the progress of an erasure.
const ERASURE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of every command that erases data.
#[derive(Args)]
pub struct ErasureArguments {
    /// Count what would be removed, and remove nothing
    #[arg(long, conflicts_with_all = ["yes", "no_wait"])]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Do not wait until everything is erased, which takes a minute or more
    #[arg(long)]
    no_wait: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// A request for an erasure.
pub struct SentErasure<'r> {
    /// Path of the operation that erases.
    pub path: &'r str,
    /// The body of the request, an object.
    pub body: Value,
    /// A sentence that names the data to erase.
    pub question: &'r str,
}

/// Counts what an erasure would remove, or requests it and waits for its end. `reload` reads the erasure with an id again.
///
/// # Errors
/// Returns an error if the person does not agree, or if the api refuses a request or cannot be reached.
pub async fn run_erasure(
    client: &Client,
    arguments: &ErasureArguments,
    mut request: SentErasure<'_>,
    reload: impl AsyncFn(&str) -> Result<Value, BoxError>,
) -> Outcome {
    if arguments.dry_run {
        request.body["dry_run"] = true.into();
        let count: Value = client.post(request.path, &request.body).await?;
        if arguments.json {
            Console::get().print_json(&count)?;
        } else {
            say!("{}", describe_count(&count));
        }
        return Ok(Exit::Ready);
    }
    confirm_action(&format!("{} It cannot be undone.", request.question), arguments.yes)?;
    let mut erasure: Value = client.post(request.path, &request.body).await?;
    if !arguments.no_wait {
        note!("a builder searches twice, the second time a minute after this command");
        let id = item_text(&erasure, "id");
        while matches!(item_text(&erasure, "state").as_str(), "searching" | "searching_again") {
            tokio::time::sleep(ERASURE_CHECK_INTERVAL).await;
            erasure = reload(&id).await?;
        }
    }
    let state = item_text(&erasure, "state");
    if arguments.json {
        Console::get().print_json(&erasure)?;
    } else {
        say!("{}  {state}  {}", item_text(&erasure, "id"), describe_removed(&erasure));
    }
    Ok(if state == "failed" { Exit::Failed } else { Exit::Ready })
}

/// Returns the numbers of rows that an erasure has removed as text.
#[must_use]
pub fn describe_removed(erasure: &Value) -> String {
    describe_rows(&erasure["removed"])
}

fn describe_count(count: &Value) -> String {
    let least = if count["complete"] == false { "at least " } else { "" };
    format!("would remove {least}{}", describe_rows(&count["would_remove"]))
}

fn describe_rows(by_table: &Value) -> String {
    let rows = by_table.as_object().into_iter().flatten();
    let rows: Vec<String> = rows.map(|(table, rows)| format!("{table} {rows}")).collect();
    if rows.is_empty() { "nothing".to_owned() } else { rows.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_named_by_their_tables() {
        let rows = json!({"reports": 2, "sessions": 1});
        assert_eq!(describe_removed(&json!({"removed": rows})), "reports 2, sessions 1");
        assert_eq!(describe_removed(&json!({"removed": {}})), "nothing");
        let mut count = json!({"would_remove": rows, "complete": true});
        assert_eq!(describe_count(&count), "would remove reports 2, sessions 1");
        count["complete"] = false.into();
        assert_eq!(describe_count(&count), "would remove at least reports 2, sessions 1");
    }
}
