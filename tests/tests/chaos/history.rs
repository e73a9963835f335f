//! Rows that move to ClickHouse while faults strike, with `UNSLIDE_CHAOS_HISTORY=1`; then they are brought back and move again.

use crate::installation_under_test::{DRAIN, World};
use crate::load::SUSPENDED;
use futures::{StreamExt, stream};
use sqlx::{Connection, PgConnection, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex as Plain;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use unslide_embedded::ClickHouse;
use unslide_tests::client::Client;
use unslide_tests::proxy::{Proxy, Weather};

/// Rows move as soon as their bodies have.
const AT_ONCE: &str = "1s";
/// No row moves any more.
const NEVER: &str = "3650d";
/// How long rows may take to move, with some rounds of maintenance.
const MOVE_TIMEOUT: Duration = Duration::from_secs(180);
/// How long ClickHouse is away.
const ABSENCE: Duration = Duration::from_secs(3);
/// Reports that are read at the same time.
const READS: usize = 8;

/// The ClickHouse of the installation, behind a proxy.
pub struct HistoryUnderTest {
    clickhouse: Plain<Option<ClickHouse>>,
    proxy: Proxy,
    folder: PathBuf,
    url: String,
    /// The setting `history.after` of processes that start from now on; none if they have no history.
    after: Plain<Option<&'static str>>,
}

/// A report of a list: tenant, id, variant and revision.
type Listed = (String, String, i64, i64);

impl HistoryUnderTest {
    pub async fn start(folder: &Path) -> HistoryUnderTest {
        let folder = folder.join("history");
        std::fs::create_dir_all(&folder).expect("a folder");
        let clickhouse = start_clickhouse(&folder);
        let (proxy, url) = Proxy::for_url(&clickhouse.url()).await;
        let (clickhouse, after) = (Plain::new(Some(clickhouse)), Plain::new(Some(AT_ONCE)));
        HistoryUnderTest { clickhouse, proxy, folder, url, after }
    }

    /// The settings of processes that start from now on.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let Some(after) = *self.after.lock().expect("not poisoned") else { return Vec::new() };
        vec![
            ("UNSLIDE_HISTORY__URL", self.url.clone()),
            ("UNSLIDE_HISTORY__USER", "default".to_owned()),
            ("UNSLIDE_HISTORY__AFTER", after.to_owned()),
        ]
    }

    fn set_after(&self, after: Option<&'static str>) {
        *self.after.lock().expect("not poisoned") = after;
    }

    /// Kills ClickHouse, and starts it on the same data after a while.
    async fn crash(&self) {
        let clickhouse = self.clickhouse.lock().expect("not poisoned").take();
        tokio::task::block_in_place(|| clickhouse.expect("ClickHouse runs").kill());
        sleep(ABSENCE).await;
        let clickhouse = tokio::task::block_in_place(|| start_clickhouse(&self.folder));
        self.proxy.forward_to(clickhouse.listen());
        *self.clickhouse.lock().expect("not poisoned") = Some(clickhouse);
    }
}

fn start_clickhouse(folder: &Path) -> ClickHouse {
    ClickHouse::start(folder).expect("ClickHouse starts").expect("scripts/setup test has installed chdb-core")
}

/// Runs a command of the service with the settings of the history: its exit code, and all that it says.
async fn run_command(world: &World, history: &HistoryUnderTest, arguments: &[&str]) -> (i32, String) {
    let settings = history.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let installation = world.installation.lock().await;
    let (status, output, error) =
        tokio::task::block_in_place(|| installation.command_with(arguments, &settings));
    (status, output + &error)
}

/// Makes the tables.
pub async fn migrate(world: &World) {
    let Some(history) = &world.history else { return };
    let (status, said) = run_command(world, history, &["migrate"]).await;
    assert_eq!(status, 0, "{said}");
}

/// Lets ClickHouse die twice while reports flow, and be unreachable and slow in between.
pub async fn strike(world: &Arc<World>, length: Duration) {
    let Some(history) = &world.history else { return };
    let begin = Instant::now();
    for (part, weather) in [
        (1, None),
        (2, Some(Weather::Refused)),
        (3, Some(Weather::Slow(Duration::from_millis(400)))),
        (4, None),
    ] {
        sleep_until(begin + length * part / 5).await;
        world.note(&format!("ClickHouse: {weather:?}"));
        match weather {
            None => history.crash().await,
            Some(weather) => {
                history.proxy.set_weather(weather);
                sleep(ABSENCE).await;
                history.proxy.set_weather(Weather::Fair);
            }
        }
    }
}

/// Turns the history off and on again, and off for the verdict, with a ClickHouse that dies while rows come back. Fails if lists of
/// the API are not the reports that keys name each time, or if no row has moved.
pub async fn turn_off_and_on(
    world: &Arc<World>,
    clients: &BTreeMap<String, Client>,
    names: &[String],
) -> Result<(), String> {
    let Some(history) = &world.history else { return Ok(()) };
    history.proxy.set_weather(Weather::Fair);
    let services: Vec<&String> = names.iter().filter(|name| !name.starts_with("symbolizer")).collect();
    let indexers: Vec<&String> = names.iter().filter(|name| name.starts_with("indexer")).collect();
    for round in ["first", "second"] {
        wait_moved(world, &indexers).await?;
        let listed = read_lists(world, clients).await?;
        if round == "first" {
            read_reports(clients, &listed).await?;
        }
        // As docs/history.md says it.
        history.set_after(Some(NEVER));
        restart(world, &indexers).await;
        let crash = {
            let world = Arc::clone(world);
            tokio::spawn(async move {
                sleep(Duration::from_millis(700)).await;
                world.history.as_ref().expect("a history").crash().await;
            })
        };
        let (status, said) = run_command(world, history, &["leave-history", "--yes"]).await;
        crash.await.map_err(|error| error.to_string())?;
        world
            .note(&format!("{round}: leave-history ends with {status}: {}", said.trim().replace('\n', "; ")));
        if ![0, 4].contains(&status) {
            return Err(format!("leave-history ends with {status}: {said}"));
        }
        let (status, said) = run_command(world, history, &["leave-history", "--yes"]).await;
        let left = count_moved(world).await?;
        if (status, left) != (0, 0) {
            return Err(format!("leave-history ends with {status} and leaves {left} rows: {said}"));
        }
        history.set_after(None);
        restart(world, &services).await;
        let without = read_lists(world, clients).await?;
        if without != listed {
            let differ: Vec<&Listed> = listed.symmetric_difference(&without).take(5).collect();
            return Err(format!("lists without the history differ from those with it: {differ:?}"));
        }
        if round == "first" {
            history.set_after(Some(AT_ONCE));
            restart(world, &services).await;
        }
    }
    Ok(())
}

/// Asks processes to end, and starts them with the settings of now.
async fn restart(world: &Arc<World>, names: &[&String]) {
    for name in names {
        let process = world.take_process(name).await;
        let ended = tokio::task::block_in_place(|| process.end_within(DRAIN));
        if !ended.is_some_and(|status| status.success()) {
            world.note(&format!("{name} was asked to end and ended with {ended:?}"));
        }
        world.start_process(name).await;
    }
    for name in names {
        world.installation.lock().await.wait_ready(name).await;
    }
}

async fn connect(world: &World) -> Result<PgConnection, String> {
    let url = world.installation.lock().await.database_url();
    PgConnection::connect(&url).await.map_err(|error| error.to_string())
}

async fn count_moved(world: &World) -> Result<i64, String> {
    let moved = "SELECT count(*) FROM report_keys WHERE history_version IS NOT NULL";
    sqlx::query_scalar(moved).fetch_one(&mut connect(world).await?).await.map_err(|error| error.to_string())
}

/// Waits until rows have moved. The first round of an indexer moves what is due.
async fn wait_moved(world: &Arc<World>, indexers: &[&String]) -> Result<(), String> {
    // Moves of processes that died keep others away for a while.
    let age = "UPDATE history_moves SET begun_at = begun_at - interval '1 hour'";
    sqlx::query(age).execute(&mut connect(world).await?).await.map_err(|error| error.to_string())?;
    world.note(&format!("{} rows are in ClickHouse", count_moved(world).await?));
    restart(world, indexers).await;
    let (begin, mut last) = (Instant::now(), -1);
    loop {
        let moved = count_moved(world).await?;
        if moved > 0 && moved == last {
            world.note(&format!("{moved} rows are in ClickHouse"));
            return Ok(());
        }
        if begin.elapsed() > MOVE_TIMEOUT {
            return Err(format!("{moved} rows have moved after {MOVE_TIMEOUT:?}"));
        }
        last = moved;
        sleep(Duration::from_secs(2)).await;
    }
}

/// Reads the lists of all tenants to their ends. Fails if they are not the reports that keys name, each once.
async fn read_lists(world: &World, clients: &BTreeMap<String, Client>) -> Result<BTreeSet<Listed>, String> {
    let mut listed = BTreeSet::new();
    for (tenant, client) in clients.iter().filter(|(tenant, _)| *tenant != SUSPENDED) {
        let mut cursor = String::new();
        loop {
            let (status, page) = client.get(&format!("/v1/reports?limit=200{cursor}")).await;
            if status != 200 || page.get("history_unavailable").is_some() {
                return Err(format!("the list of {tenant}: {status}: {page}"));
            }
            for item in page["items"].as_array().into_iter().flatten() {
                let number = |name: &str| item[name].as_i64().unwrap_or(-1);
                let id = item["id"].as_str().unwrap_or_default().to_owned();
                let report = (tenant.clone(), id, number("variant"), number("revision"));
                if let Some(twice) = listed.replace(report) {
                    return Err(format!("listed twice: {twice:?}"));
                }
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
    }
    let keys = "SELECT tenant, report_id::text, variant, latest_revision FROM report_keys
                WHERE deleted_at IS NULL AND tenant <> $1";
    let keys = sqlx::query(keys).bind(SUSPENDED).fetch_all(&mut connect(world).await?).await;
    let keys: BTreeSet<Listed> = keys
        .map_err(|error| error.to_string())?
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get::<i32, _>(2).into(), row.get::<i32, _>(3).into()))
        .collect();
    let differ: Vec<&Listed> = keys.symmetric_difference(&listed).take(5).collect();
    if !differ.is_empty() {
        return Err(format!("{} keys, {} listed; differ: {differ:?}", keys.len(), listed.len()));
    }
    world.note(&format!("lists have all {} reports", listed.len()));
    Ok(listed)
}

/// Reads each report of a list with its body.
async fn read_reports(clients: &BTreeMap<String, Client>, listed: &BTreeSet<Listed>) -> Result<(), String> {
    let reads = stream::iter(listed).map(|(tenant, id, variant, revision)| async move {
        let (status, report) = clients[tenant].get(&format!("/v1/reports/{id}?variant={variant}")).await;
        if status == 200 {
            Ok(())
        } else {
            Err(format!("{tenant} {id} {variant} {revision}: {status}: {report}"))
        }
    });
    let failed: Vec<String> =
        reads.buffer_unordered(READS).filter_map(|read| async { read.err() }).collect().await;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("{} reports cannot be read: {}", failed.len(), failed[0]))
    }
}
