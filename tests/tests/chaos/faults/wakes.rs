//! Builders that die inside one wake, more often than any counter of attempts would bear.
//! Proves: late-symbols

use crate::installation_under_test::World;
use crate::load::{Apps, LIMITED, uploads};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_model::DebugId;
use unslide_tests::client::Client;

/// Deaths of builders in one job, each counted as an attempt.
const DEATHS: i32 = 8;
/// How long the load may take until a report waits, and a builder until it is inside the wake.
const LONGEST: Duration = Duration::from_secs(120);

/// A report that waits for the image, which the wake's first page comes to.
const WAITING: &str = "SELECT w.report_id FROM report_keys k JOIN waits w USING (tenant, report_id, variant)
     WHERE k.tenant = $1 AND w.debug_id = $2 AND w.seen_generation = 0
     ORDER BY w.received_at DESC LIMIT 1 FOR UPDATE OF k";
/// Attempts of the wake, and whether a builder that lives has it. An attempt is counted when the job is leased. From the
/// third on it is taken back until the job may run alone.
const WAKE: &str =
    "SELECT coalesce(max(attempts), 0), coalesce(bool_or(status = 'running' AND lease_until > now()), false)
     FROM jobs WHERE tenant = $1 AND kind = 'wake' AND (payload ->> 'debug_id')::uuid = $2";
/// The lease of the one that died is over, and so is the pause after its deaths.
const EXPIRE: &str = "UPDATE jobs SET lease_until = now() - interval '11 minutes'
     WHERE tenant = $1 AND kind = 'wake' AND status = 'running'";

/// Uploads what reports wait for, and kills each builder that is in the middle of asking for them. What is asked
/// for in the end is judged with everything else. False where no report waits, so that no builder was killed.
pub async fn kill_inside(world: &Arc<World>, client: &Client, apps: &Apps) -> Result<bool, String> {
    let url = world.installation.lock().await.database_url();
    let failed = |error: sqlx::Error| format!("the database of a wake's test: {error}");
    let mut holder = PgConnection::connect(&url).await.map_err(failed)?;
    let mut watcher = PgConnection::connect(&url).await.map_err(failed)?;
    let image = apps.next.debug_id;
    // While somebody has the report's key, the wake stays inside its page.
    sqlx::raw_sql("BEGIN").execute(&mut holder).await.map_err(failed)?;
    let begin = Instant::now();
    loop {
        let waiting = sqlx::query(WAITING).bind(LIMITED).bind(image.uuid()).fetch_optional(&mut holder);
        if waiting.await.map_err(failed)?.is_some() {
            break;
        }
        if begin.elapsed() > LONGEST {
            world.note(&format!("no report of {LIMITED} waits for the next build: no wake is killed"));
            return Ok(false);
        }
        sleep(Duration::from_millis(200)).await;
    }
    uploads::upload(world, client, LIMITED, "/v1/symbols", &apps.next.dsym).await?;
    let mut wake = wake_of(&mut watcher, image).await.map_err(failed)?;
    while wake.0 < DEATHS {
        let begin = Instant::now();
        while !wake.1 {
            if begin.elapsed() > LONGEST {
                return Err(format!("no builder has taken the wake after {} deaths", wake.0));
            }
            sleep(Duration::from_millis(50)).await;
            wake = wake_of(&mut watcher, image).await.map_err(failed)?;
        }
        world.take_process("builder").await.kill();
        sqlx::query(EXPIRE).bind(LIMITED).execute(&mut watcher).await.map_err(failed)?;
        // One that took its attempt back, or died before it was counted, is no death inside.
        wake = wake_of(&mut watcher, image).await.map_err(failed)?;
        world.start_process("builder").await;
    }
    world.note(&format!("{DEATHS} builders were killed inside one wake"));
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.map_err(failed)?;
    Ok(true)
}

/// Attempts of the wake, and whether a builder has it.
async fn wake_of(database: &mut PgConnection, image: DebugId) -> sqlx::Result<(i32, bool)> {
    sqlx::query_as(WAKE).bind(LIMITED).bind(image.uuid()).fetch_one(database).await
}
