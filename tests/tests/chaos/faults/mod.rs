//! Lets the planned faults strike.

pub mod deadly;
pub mod wakes;

use crate::installation_under_test::{DISK, DRAIN, World};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use unslide_embedded::Server;
use unslide_tests::plan::{Fault, Strike, Target};
use unslide_tests::proxy::Weather;

/// Lets all faults strike, each target's in their order, and returns when the last is over.
pub async fn strike(world: &Arc<World>, plan: Vec<Strike>) {
    let begin = Instant::now();
    let mut targets: BTreeMap<Target, Vec<Strike>> = BTreeMap::new();
    for strike in plan {
        targets.entry(strike.target).or_default().push(strike);
    }
    let mut running = JoinSet::new();
    for strikes in targets.into_values() {
        let world = Arc::clone(world);
        running.spawn(async move {
            for strike in strikes {
                sleep_until(begin + strike.at).await;
                world.note(&format!(
                    "{}: {:?}, {:.1} s",
                    strike.target,
                    strike.fault,
                    strike.lasts.as_secs_f64()
                ));
                one(&world, strike).await;
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("a fault is struck");
    }
}

async fn one(world: &Arc<World>, Strike { lasts, target, fault, .. }: Strike) {
    match target.process_name() {
        Some(name) => process(world, &name, fault, lasts).await,
        None => server(world, target, fault, lasts).await,
    }
}

async fn process(world: &Arc<World>, name: &str, fault: Fault, lasts: Duration) {
    match fault {
        Fault::Kill => {
            let process = world.take_process(name).await;
            process.kill();
            sleep(lasts).await;
            world.start_process(name).await;
        }
        Fault::Remove => {
            let process = world.take_process(name).await;
            let ended = tokio::task::spawn_blocking(move || process.end_within(DRAIN)).await.expect("waits");
            match ended {
                Some(status) if status.success() => {}
                Some(status) => world.note(&format!("{name} ended with {status} when it was asked to end")),
                None => world.note(&format!("{name} did not end within {DRAIN:?} and was killed")),
            }
            sleep(lasts).await;
            world.start_process(name).await;
        }
        Fault::Freeze => {
            world.installation.lock().await.find_process(name).send_signal(Signal::SIGSTOP);
            sleep(lasts).await;
            world.installation.lock().await.find_process(name).send_signal(Signal::SIGCONT);
        }
        Fault::FullDisk => {
            if !world.disks {
                return;
            }
            let until = Instant::now() + lasts;
            // A process that has only just been started has no disk of its own yet.
            let filled = loop {
                let (ballast, host) = {
                    let mut installation = world.installation.lock().await;
                    let cache = installation.data_folder(name);
                    let root = PathBuf::from(format!("/proc/{}/root", installation.find_process(name).id()));
                    (root.join(cache.strip_prefix("/").unwrap_or(&cache)).join("ballast"), cache)
                };
                match fill(&ballast, &host) {
                    Some(written) => break Some((ballast, written)),
                    None if Instant::now() < until => sleep(Duration::from_millis(10)).await,
                    None => break None,
                }
            };
            let Some((ballast, written)) = filled else {
                world.note(&format!("{name}: has had no disk to fill"));
                return;
            };
            world.note(&format!("{name}: its disk is full after {written} bytes"));
            sleep(lasts).await;
            // It is gone already where the process has ended.
            let _ = std::fs::remove_file(&ballast);
        }
        other => unreachable!("{other:?} is not planned for {name}"),
    }
}

/// Writes until nothing more can be written, never more than a worker's disk holds; how much that was.
/// None where the file would lie on the machine's own disk, the one of `host`, or nowhere.
fn fill(file: &Path, host: &Path) -> Option<usize> {
    let mut ballast = std::fs::File::create(file).ok()?;
    if ballast.metadata().ok()?.dev() == std::fs::metadata(host).ok()?.dev() {
        let _ = std::fs::remove_file(file);
        return None;
    }
    let mut written = 0;
    for size in [4_096, 1] {
        while written < DISK && ballast.write_all(&vec![0; size]).is_ok() {
            written += size;
        }
    }
    Some(written)
}

async fn server(world: &Arc<World>, target: Target, fault: Fault, lasts: Duration) {
    let proxy = match target {
        Target::Kafka => &world.kafka_proxy,
        Target::Postgres => &world.postgres_proxy,
        _ => &world.objects_proxy,
    };
    let weather = match fault {
        Fault::Unreachable => Some(Weather::Refused),
        Fault::Slow => Some(Weather::Slow(Duration::from_millis(400))),
        Fault::Errors => Some(Weather::Errors),
        Fault::Throttle => Some(Weather::Throttled),
        Fault::Truncate => Some(Weather::Truncated),
        Fault::Corrupt => Some(Weather::Corrupt),
        _ => None,
    };
    if let Some(weather) = weather {
        proxy.set_weather(weather);
        sleep(lasts).await;
        proxy.set_weather(Weather::Fair);
        return;
    }
    match (fault, target) {
        (Fault::Cut, _) => proxy.cut_connections(),
        (Fault::ReadOnly, _) => {
            set_read_only(world, true).await;
            sleep(lasts).await;
            set_read_only(world, false).await;
        }
        (Fault::Freeze, _) => {
            let processes = processes(world, target);
            signal(&processes, Signal::SIGSTOP);
            sleep(lasts).await;
            signal(&processes, Signal::SIGCONT);
        }
        (Fault::AddPartitions, _) => add_partitions(world).await,
        (Fault::Restart | Fault::Crash, Target::Kafka | Target::Postgres) => {
            let which = if target == Target::Kafka { Server::Kafka } else { Server::Postgres };
            let restarted = Arc::clone(world);
            let restart = move || restarted.servers.restart(which, fault == Fault::Crash);
            let restarted = tokio::task::spawn_blocking(restart).await.expect("waits");
            restarted.unwrap_or_else(|error| panic!("{target} does not start again: {error}"));
            world.note(&format!("{target} is there again"));
        }
        (_, _) => {
            let process = world.objects.lock().expect("not poisoned").take();
            process.expect("the S3 endpoint runs").kill();
            sleep(lasts).await;
            world.start_objects().await;
        }
    }
}

/// Adds partitions as an operator does, who tries again while a server is away.
async fn add_partitions(world: &World) {
    let wanted = world.partitions.fetch_add(2, Ordering::Relaxed) + 2;
    for _ in 0..60 {
        let installation = world.installation.lock().await;
        let arguments = ["migrate", "--topics", "--partitions", &wanted.to_string()];
        let (status, said, _) = tokio::task::block_in_place(|| installation.run_command(&arguments));
        drop(installation);
        if status == 0 {
            let changed = said.lines().filter(|line| line.contains(" partitions")).collect::<Vec<_>>();
            return world.note(&changed.join(", "));
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("the topics do not get {wanted} partitions");
}

/// Lets PostgreSQL take no writes, or take them again, in all sessions from their next transaction on.
async fn set_read_only(world: &World, takes_none: bool) {
    let mut admin = PgConnection::connect(world.servers.postgres_url()).await.expect("PostgreSQL");
    let set = format!("ALTER SYSTEM SET default_transaction_read_only = {takes_none}");
    for statement in ["SET default_transaction_read_only = off", set.as_str(), "SELECT pg_reload_conf()"] {
        admin.execute(AssertSqlSafe(statement.to_owned())).await.expect(statement);
    }
    admin.close().await.expect("closed");
}

/// The processes of a server, its own first.
fn processes(world: &World, target: Target) -> Vec<i32> {
    let [kafka, postgres] = world.servers.process_ids();
    let own = match target {
        Target::Kafka => kafka,
        Target::Postgres => postgres,
        _ => {
            let objects = world.objects.lock().expect("not poisoned");
            i32::try_from(objects.as_ref().expect("the S3 endpoint runs").id()).expect("a process id")
        }
    };
    let mut all = vec![own];
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the command's name in parentheses: the state and the parent.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        if parent == Some(own) {
            all.push(id);
        }
    }
    all
}

fn signal(processes: &[i32], signal: Signal) {
    for process in processes {
        // One that has ended meanwhile needs none.
        let _ = kill(Pid::from_raw(*process), signal);
    }
}
