//! Symbols that are there from the start, and symbols that come late, in the middle of the faults.

use crate::load::{Apps, SUSPENDED};
use crate::world::World;
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
            world.installation.blocking_lock().command(&["tenant", "suspend", SUSPENDED, "--wait", "1"])
        });
        if status == 0 {
            return world.note(&format!("{SUSPENDED} is suspended"));
        }
        world.note(&format!("{SUSPENDED} is not suspended: {output}{}", error.lines().next().unwrap_or("")));
        sleep(Duration::from_secs(1)).await;
    }
}

/// Uploads a file as a patient client does, until the builder has made its symbols.
async fn upload(
    world: &Arc<World>,
    client: &Client,
    whose: &str,
    to: &str,
    file: &[u8],
) -> Result<(), String> {
    let begin = Instant::now();
    let mut last = String::new();
    while begin.elapsed() < LONGEST {
        let Some((202, accepted)) = client.attempt(to, Some(file.to_vec())).await else {
            sleep(Duration::from_millis(500)).await;
            continue;
        };
        let path = format!("{to}/uploads/{}?wait=5s", accepted["id"].as_str().unwrap_or_default());
        while begin.elapsed() < LONGEST {
            let Some((200, upload)) = client.attempt(&path, None).await else {
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
                    "{whose}: symbols are ready after {:.1} s",
                    begin.elapsed().as_secs_f64()
                ));
                return Ok(());
            }
            return Err(format!("sound symbols of {whose} were not taken: {upload}"));
        }
    }
    Err(format!("an upload of {whose} is not done after {LONGEST:?}: {last}"))
}
