//! Parts of the subcommands of features, and the runtime that commands run on.

use crate::listing::item_text;
use crate::{ApiServer, BoxError, Client, Console, Exit, Outcome, note, say};
use clap::ValueEnum;
use serde_json::Value;
use std::time::Duration;

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

/// Prints the answer of a test that the api has made of something outside, such as a receiver: as JSON, or what `describe` prints of
/// it, and whether it works.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub fn print_trial(trial: &Value, as_json: bool, describe: impl FnOnce()) -> Outcome {
    let works = trial["ok"] == true;
    if as_json {
        Console::get().print_json(trial)?;
    } else {
        describe();
        say!("{}  {}", if works { "works   " } else { "fails   " }, item_text(trial, "answer"));
    }
    Ok(if works { Exit::Ready } else { Exit::Failed })
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
