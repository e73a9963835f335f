//! `unslide key erase`: erases what apps sent with a public key.

use crate::moment::Moment;
use crate::prelude::*;
use std::time::Duration;
use tokio::time::sleep;
use unslide_client::confirm_action;
use unslide_client::listing::item_text;
use unslide_model::{Clock, SystemClock};

/// Interval between two looks at the progress of an erasure.
const PROGRESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The arguments of `unslide key erase`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Id of the public key, 8 hexadecimal digits, as the console and dead letters show it
    id: String,
    /// Erase what arrived from then on: a time (RFC 3339), or a duration before now such as 90m
    #[arg(long, value_name = "WHEN")]
    from: Moment,
    /// Keep what arrived at this time or later; now if absent
    #[arg(long, value_name = "WHEN")]
    to: Option<Moment>,
    /// Erase this version of the apps alone, as their reports name it
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Do not wait until everything is erased, which takes a minute or more
    #[arg(long)]
    no_wait: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let id = &arguments.id;
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(
                CommandError::usage(format!("{id}: the id of a public key is 8 hexadecimal digits")).into()
            );
        }
        let now = SystemClock.now_micros() / 1_000;
        let from = arguments.from.as_text(now);
        let to = arguments.to.map(|to| to.as_text(now));
        let until = to.as_deref().map_or_else(String::new, |to| format!(" until {to}"));
        let of = arguments
            .app_version
            .as_deref()
            .map_or_else(String::new, |version| format!(" of version {version}"));
        let question = format!(
            "This erases the reports and runs{of} that came with the key {id} from {from}{until}. It cannot be undone."
        );
        confirm_action(&question, arguments.yes)?;
        let path = format!("/v1/public-keys/{id}");
        let wanted = json!({"from": from, "to": to, "version": arguments.app_version});
        let mut erasure: Value = client.post(&format!("{path}/erasures"), &wanted).await?;
        let own = item_text(&erasure, "id");
        if !arguments.no_wait {
            note!("a builder searches twice, the second time a minute after this command");
            while matches!(item_text(&erasure, "state").as_str(), "searching" | "searching_again") {
                sleep(PROGRESS_CHECK_INTERVAL).await;
                let key: Value = client.get(&path).await?;
                let mut erasures = key["erasures"].as_array().into_iter().flatten();
                let found = erasures.find(|erasure| item_text(erasure, "id") == own);
                erasure = found.ok_or("the key does not list the erasure any more")?.clone();
            }
        }
        if arguments.json {
            Console::get().print_json(&erasure)?;
        } else {
            say!("{own}  {}  {}", item_text(&erasure, "state"), describe_removed(&erasure));
        }
        Ok(if item_text(&erasure, "state") == "failed" { Exit::Failed } else { Exit::Ready })
    })
}

/// Returns the numbers of removed rows as text.
fn describe_removed(erasure: &Value) -> String {
    let removed = erasure["removed"].as_object().into_iter().flatten();
    let removed: Vec<String> = removed.map(|(table, rows)| format!("{table} {rows}")).collect();
    if removed.is_empty() { "nothing".to_owned() } else { removed.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_rows_are_named_by_their_tables() {
        assert_eq!(
            describe_removed(&json!({"removed": {"reports": 2, "sessions": 1}})),
            "reports 2, sessions 1"
        );
        assert_eq!(describe_removed(&json!({"removed": {}})), "nothing");
    }
}
