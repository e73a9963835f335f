//! `unslide public-key rotate`, `retire` and `activate`: which key new versions of an app use.

use super::{KEYS, key_path};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use unslide_cli::listing::item_text;
use unslide_cli::{ApiServer, BoxError, Client, Exit, Outcome, block_on, note, say};

/// The arguments of the three commands.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Id of the public key, 8 hexadecimal digits, as `unslide key list` shows it
    id: String,
}

/// Makes a key for the apps of another, and retires that one.
pub fn rotate(arguments: &Arguments) -> Outcome {
    let path = key_path(&arguments.id)?;
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let old: Value = client.get(&path).await?;
        let new: Value = client.post(KEYS, &json!({"name": old["name"], "apps": old["apps"]})).await?;
        say!("{}", item_text(&new, "key"));
        set_state(&client, &path, "retired").await?;
        let (id, old) = (item_text(&new, "id"), item_text(&old, "id"));
        note!(
            "{id} is in use; {old} is retired and still accepted. `unslide public-key show {old}` lists the versions that use it"
        );
        Ok(Exit::Ready)
    })
}

/// Sets the state of a key.
pub fn change_state(arguments: &Arguments, state: &str) -> Outcome {
    let path = key_path(&arguments.id)?;
    block_on(async {
        let client = Client::new(&arguments.server)?;
        say!("{}", item_text(&set_state(&client, &path, state).await?, "state"));
        Ok(Exit::Ready)
    })
}

async fn set_state(client: &Client, path: &str, state: &str) -> Result<Value, BoxError> {
    Ok(client.send_json(Method::PATCH, path, &json!({"state": state})).await?)
}
