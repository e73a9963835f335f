//! `unslide public-key erase`: erases what apps sent with a public key.

use super::key_path;
use clap::Args;
use serde_json::{Value, json};
use unslide_cli::listing::item_text;
use unslide_cli::{ApiServer, Client, ErasureArguments, Outcome, SentErasure, block_on, run_erasure};
use unslide_model::{Clock, Moment, SystemClock};

/// The arguments of `unslide public-key erase`.
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
    #[command(flatten)]
    erasure: ErasureArguments,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let path = key_path(&arguments.id)?;
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let id = &arguments.id;
        let now = SystemClock.now_micros() / 1_000;
        let from = arguments.from.as_text(now);
        let to = arguments.to.map(|to| to.as_text(now));
        let until = to.as_deref().map_or_else(String::new, |to| format!(" until {to}"));
        let of = arguments
            .app_version
            .as_deref()
            .map_or_else(String::new, |version| format!(" of version {version}"));
        let request = SentErasure {
            path: &format!("{path}/erasures"),
            body: json!({"from": from, "to": to, "version": arguments.app_version}),
            question: &format!(
                "This erases the reports and runs{of} that came with the key {id} from {from}{until}."
            ),
        };
        let reload = async |own: &str| {
            let key: Value = client.get(&path).await?;
            let mut erasures = key["erasures"].as_array().into_iter().flatten();
            let found = erasures.find(|erasure| item_text(erasure, "id") == own);
            Ok(found.ok_or("the key does not list the erasure any more")?.clone())
        };
        run_erasure(&client, &arguments.erasure, request, reload).await
    })
}
