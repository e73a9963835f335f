//! How far the traffic is: what the service has of it, and the dSYMs that reports wait for.

use super::builds::Build;
use crate::demo::{LONGEST, upload};
use serde_json::Value;
use std::io::{Cursor, Read};
use std::time::Duration;
use unslide_cli::{BoxError, Client};
use unslide_model::DebugId;

/// Asks how many reports the service has.
///
/// # Errors
/// Returns an error if the API does not answer.
pub async fn count_reports(client: &Client) -> Result<u64, BoxError> {
    Ok(reports_of(&client.get("/v1/apps").await?))
}

/// Returns the number of reports that the service has of all apps.
pub fn reports_of(apps: &Value) -> u64 {
    let apps = apps["items"].as_array().into_iter().flatten();
    apps.filter_map(|app| app["reports"].as_u64()).sum()
}

pub async fn wait(client: &Client, enough: impl Fn(&Value) -> bool) -> Result<(), BoxError> {
    let there = async {
        loop {
            let apps: Value = client.get("/v1/apps").await?;
            if enough(&apps) {
                return Ok::<(), BoxError>(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(LONGEST, there).await.map_err(|_| "the reports were not stored in time")?
}

/// Waits until no report of a build lacks symbols of its own.
pub async fn heal(client: &Client, build: &Build) -> Result<(), BoxError> {
    let path = format!("/v1/missing-symbols?app={}&version={}", build.app, build.version);
    let healed = async {
        loop {
            let missing: Value = client.get(&path).await?;
            let waiting = format!("/v1/groups?app={}&version={}&provisional=true", build.app, build.version);
            let groups: Value = client.get(&waiting).await?;
            let none = |page: &Value| page["items"].as_array().is_none_or(Vec::is_empty);
            if none(&missing) && none(&groups) {
                return Ok::<(), BoxError>(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(LONGEST, healed).await.map_err(|_| "the reports did not heal in time")?
}

/// Uploads the dSYM of a build's program under the build's UUID.
pub async fn upload_build(client: &Client, build: &Build) -> Result<(), BoxError> {
    let program = build.program();
    let mut archive = zip::ZipArchive::new(Cursor::new(program.dsym))?;
    let mut file = Vec::new();
    archive.by_name("Cafe.dSYM/Contents/Resources/DWARF/Cafe")?.read_to_end(&mut file)?;
    let (own, new): (DebugId, DebugId) = (program.uuid.parse()?, build.uuid.parse()?);
    let at =
        file.windows(own.0.len()).position(|window| window == own.0).ok_or("the dSYM has another UUID")?;
    file[at..at + own.0.len()].copy_from_slice(&new.0);
    upload(client, &format!("{}-{}", build.name, build.version), file.into()).await
}
