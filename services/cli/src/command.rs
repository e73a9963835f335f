//! Parts of the subcommands of features, and the runtime that commands run on.

use crate::listing::item_text;
use crate::{ApiServer, BoxError, Client, Console, Exit, Outcome, note, say};
use clap::ValueEnum;
use serde_json::Value;
use std::time::Duration;

/// Interval between two looks at the progress of an erasure.
const ERASURE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Shows a tenant's switch of a feature, or changes it: the body of the change is the one of `PUT`. `describe` says in
/// one line how it is.
///
/// # Errors
/// Returns an error if the api refuses the request or cannot be reached.
pub fn run_switch(
    server: &ApiServer,
    path: &str,
    change: Option<&Value>,
    as_json: bool,
    describe: impl Fn(&Value) -> String,
) -> Outcome {
    block_on(async {
        let client = Client::new(server)?;
        let state: Value = match change {
            None => client.get(path).await?,
            Some(change) => client.put(path, change).await?,
        };
        if as_json {
            Console::get().print_json(&state)?;
            return Ok(Exit::Ready);
        }
        say!("{}", describe(&state));
        if state["announced"] == false {
            note!("the workers do not have the change yet; they will within minutes");
        }
        Ok(Exit::Ready)
    })
}

/// The position of a switch on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SwitchPosition {
    On,
    Off,
}

impl SwitchPosition {
    /// Returns the word for a position in an answer of the api.
    #[must_use]
    pub fn describe(is_on: &Value) -> &'static str {
        if *is_on == true { "on" } else { "off" }
    }
}

/// Waits until the builder has ended an erasure that the api has just begun: `reload` reads it again.
///
/// # Errors
/// Returns the error of `reload`.
pub async fn wait_for_erasure(
    mut erasure: Value,
    reload: impl AsyncFn() -> Result<Value, BoxError>,
) -> Result<Value, BoxError> {
    note!("a builder searches twice, the second time a minute after this command");
    while matches!(item_text(&erasure, "state").as_str(), "searching" | "searching_again") {
        tokio::time::sleep(ERASURE_CHECK_INTERVAL).await;
        erasure = reload().await?;
    }
    Ok(erasure)
}

/// Prints an erasure. The command ends as failed if the builder gave it up.
///
/// # Errors
/// Returns an error if the value cannot be printed.
pub fn print_erasure(erasure: &Value, as_json: bool) -> Outcome {
    let state = item_text(erasure, "state");
    if as_json {
        Console::get().print_json(erasure)?;
    } else {
        say!("{}  {state}  {}", item_text(erasure, "id"), describe_removed(erasure));
    }
    Ok(if state == "failed" { Exit::Failed } else { Exit::Ready })
}

/// Returns the numbers of rows that an erasure has removed as text.
#[must_use]
pub fn describe_removed(erasure: &Value) -> String {
    let removed = erasure["removed"].as_object().into_iter().flatten();
    let removed: Vec<String> = removed.map(|(table, rows)| format!("{table} {rows}")).collect();
    if removed.is_empty() { "nothing".to_owned() } else { removed.join(", ") }
}

/// Runs a command's async part. Does not wait for blocking work that it has left behind.
///
/// # Errors
/// Returns the command's own error, or one if the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn removed_rows_are_named_by_their_tables() {
        let erasure = json!({"removed": {"reports": 2, "sessions": 1}});
        assert_eq!(describe_removed(&erasure), "reports 2, sessions 1");
        assert_eq!(describe_removed(&json!({"removed": {}})), "nothing");
    }
}
