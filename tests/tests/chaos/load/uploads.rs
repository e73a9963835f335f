//! Symbols that are there from the start, and symbols that come late, in the middle of the faults.

use crate::load::{Apps, SUSPENDED};
use crate::world::World;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use unslide_testkit::fixtures;
use unslide_tests::client::Client;

/// How long one upload may take, faults and all.
const LONGEST: Duration = Duration::from_secs(300);

/// Before the first report: the app's symbols for two tenants, names only for a third.
pub async fn early(
    world: &Arc<World>,
    clients: &BTreeMap<String, Client>,
    apps: &Apps,
) -> Result<(), String> {
    let names_only = std::fs::read(fixtures::binary("app-symtab")).expect("a fixture");
    for (tenant, file) in [("acme", &apps.first.dsym), ("globex", &apps.first.dsym), ("hooli", &names_only)] {
        upload(world, &clients[tenant], tenant, "/v1/symbols", file).await?;
    }
    Ok(())
}

/// While reports flow: better symbols for one tenant, first ones for others, an operating system's for all;
/// and a tenant is suspended.
pub async fn late(
    world: &Arc<World>,
    (clients, operator): (&BTreeMap<String, Client>, &Client),
    apps: &Apps,
    length: Duration,
) -> Result<(), String> {
    let begin = Instant::now();
    let steps = [
        (20, "umbrella", &apps.first.dsym),
        (35, "acme", &apps.next.dsym),
        (45, "hooli", &apps.first.dsym),
        (60, "globex", &apps.next.dsym),
        (80, "hooli", &apps.next.dsym),
    ];
    for (percent, tenant, file) in steps {
        sleep_until(begin + length * percent / 100).await;
        if percent == 45 {
            in_parts(world, &clients[tenant], tenant, file).await?;
        }
        upload(world, &clients[tenant], tenant, "/v1/symbols", file).await?;
        if percent == 45 {
            suspend(world).await;
        }
        if percent == 60 {
            upload(world, operator, "the operators", "/v1/system/symbols", &apps.first.dsym).await?;
        }
    }
    Ok(())
}

async fn suspend(world: &Arc<World>) {
    for _ in 0..30 {
        let (status, output, error) = tokio::task::block_in_place(|| {
            world.installation.blocking_lock().run_command(&["tenant", "suspend", SUSPENDED, "--wait", "1"])
        });
        if status == 0 {
            return world.note(&format!("{SUSPENDED} is suspended"));
        }
        world.note(&format!("{SUSPENDED} is not suspended: {output}{}", error.lines().next().unwrap_or("")));
        sleep(Duration::from_secs(1)).await;
    }
}

/// Sends a file as an upload in parts, and has it made of them. What comes of it is for the next upload of the
/// same bytes to find out.
async fn in_parts(world: &Arc<World>, client: &Client, owner: &str, file: &[u8]) -> Result<(), String> {
    let begin = Instant::now();
    let hash: String = Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
    let announced = json!({"name": "Shop", "size": file.len(), "sha256": hash}).to_string();
    let mut last = None;
    while begin.elapsed() < LONGEST {
        last = client.attempt_json("/v1/symbols/uploads", &announced).await;
        if let Some((200 | 201, upload)) = &last {
            if upload["existing"] == true {
                world.note(&format!(
                    "{owner}: a file was sent in parts, {:.1} s",
                    begin.elapsed().as_secs_f64()
                ));
                return Ok(());
            }
            let path = format!("/v1/symbols/uploads/{}", upload["id"].as_str().unwrap_or_default());
            // It is smaller than a part. Where either fails, what has come is said at the next begin.
            if client.attempt_put(&format!("{path}/parts/1"), file.to_vec()).await.is_some() {
                client.try_request(&format!("{path}/complete"), Some(Vec::new())).await;
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
    Err(format!("a file of {owner} could not be sent in parts: {last:?}"))
}

/// Uploads a file as a patient client does, until the builder has made its symbols.
pub async fn upload(
    world: &Arc<World>,
    client: &Client,
    owner: &str,
    to: &str,
    file: &[u8],
) -> Result<(), String> {
    let begin = Instant::now();
    let mut last = String::new();
    while begin.elapsed() < LONGEST {
        let Some((202, accepted)) = client.try_request(to, Some(file.to_vec())).await else {
            sleep(Duration::from_millis(500)).await;
            continue;
        };
        let path = format!("{to}/uploads/{}?wait=5s", accepted["id"].as_str().unwrap_or_default());
        while begin.elapsed() < LONGEST {
            let Some((200, upload)) = client.try_request(&path, None).await else {
                sleep(Duration::from_millis(500)).await;
                continue;
            };
            last = upload.to_string();
            let status = upload["status"].as_str().unwrap_or_default();
            if ["queued", "building", "processing", "receiving", "received"].contains(&status) {
                continue;
            }
            if upload["objects"][0]["status"] == "ready" {
                world.note(&format!(
                    "{owner}: symbols are ready after {:.1} s",
                    begin.elapsed().as_secs_f64()
                ));
                return Ok(());
            }
            return Err(format!("sound symbols of {owner} were not taken: {upload}"));
        }
    }
    Err(format!("an upload of {owner} is not done after {LONGEST:?}: {last}"))
}
