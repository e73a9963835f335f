//! Faults from a seed while reports flow: nothing is lost, nothing is doubled, and the store is what
//! a replay of the topics makes.
//!
//! `UNSLIDE_CHAOS_SEED`, `UNSLIDE_CHAOS_SECONDS` and `UNSLIDE_CHAOS_REPORTS` say what to do; without
//! them it is a short run of one plan, the same each time. `make chaos` takes a new seed each time.
//! With `UNSLIDE_CHAOS_HISTORY=1` rows move to ClickHouse and back meanwhile.
//! Proves: one-outcome

#![expect(clippy::print_stdout, reason = "a program for a person to read")]

mod alerts;
mod drain;
mod faults;
mod history;
mod installation_under_test;
mod load;
mod objects;
mod verdict;

use futures::FutureExt;
use installation_under_test::World;
use load::{Apps, TENANTS};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::dice::Dice;
use unslide_tests::plan::{SHORT_LENGTH, SHORT_SEED, Scale, list_kinds, plan_strikes};
use unslide_tests::proxy::Weather;

const SYMBOLIZERS: usize = 3;
const INDEXERS: usize = 2;
/// Records a second of a long run: two cores have time for everything else as well.
const LONG_RATE: u64 = 70;
/// Records a second of the short run in `make test`. Each kind of record is still among them.
const SHORT_RATE: u64 = 30;
/// Faults that every run has besides those of its plan.
const FAULTS_OF_EVERY_RUN: [&str; 6] = [
    "a report that kills its workers",
    "builders killed inside one wake",
    "receivers of alerts away",
    "a tenant suspended while it sends",
    "a tenant above its limit",
    "records that are no reports, too large, sent twice, or of no tenant",
];

/// What to do.
struct Settings {
    seed: u64,
    length: Duration,
    reports: usize,
    /// How long everything may take to come to rest.
    rest: Duration,
    /// True if rows move to ClickHouse.
    has_history: bool,
}

impl Settings {
    fn read() -> Settings {
        let number = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
            Some(value.parse::<u64>().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
        };
        let length = number("UNSLIDE_CHAOS_SECONDS");
        let seconds = length.unwrap_or(SHORT_LENGTH.as_secs());
        let rate = if length.is_some() { LONG_RATE } else { SHORT_RATE };
        let reports = number("UNSLIDE_CHAOS_REPORTS").unwrap_or(seconds * rate);
        Settings {
            seed: number("UNSLIDE_CHAOS_SEED").unwrap_or(SHORT_SEED),
            length: Duration::from_secs(seconds),
            reports: usize::try_from(reports).expect("a count"),
            rest: Duration::from_secs(number("UNSLIDE_CHAOS_REST").unwrap_or(900)),
            has_history: number("UNSLIDE_CHAOS_HISTORY").unwrap_or(0) > 0,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, folder] = arguments.as_slice()
        && command == objects::COMMAND
    {
        objects::serve(Path::new(folder));
        return ExitCode::SUCCESS;
    }
    // As a test runner asks: for a list of tests, or for those with a name.
    let mut names = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has_flag("--list") {
        // No test of it is ignored.
        if !has_flag("--ignored") {
            println!("chaos: test");
        }
        return ExitCode::SUCCESS;
    }
    if names.peek().is_some() && !names.any(|name| "chaos".contains(name.as_str())) {
        return ExitCode::SUCCESS;
    }
    let settings = Settings::read();
    let (seed, seconds, reports) = (settings.seed, settings.length.as_secs(), settings.reports);
    let history = if settings.has_history { " CHAOS_HISTORY=1" } else { "" };
    let rerun =
        format!("make chaos CHAOS_SEED={seed} CHAOS_SECONDS={seconds} CHAOS_REPORTS={reports}{history}");
    println!(
        "chaos with seed {seed}: {reports} records in {seconds} s, {SYMBOLIZERS} symbolizers, {INDEXERS} indexers"
    );
    let mut folder = tempfile::Builder::new().prefix("unslide-chaos-").tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let place = folder.path().to_path_buf();
    let ran = runtime.block_on(async {
        tokio::select! {
            // A panic of any part ends the run and still shows what led to it.
            ran = std::panic::AssertUnwindSafe(run(&settings, &place)).catch_unwind() => {
                ran.unwrap_or_else(|_| Err("a step panicked, see above".to_owned()))
            }
            () = stopped() => Err("it was asked to stop".to_owned()),
        }
    });
    // Every task and with it every process and server ends here.
    runtime.shutdown_timeout(Duration::from_secs(30));
    match ran {
        Ok(()) => {
            println!("all is well; again with: {rerun}");
            let _ = unslide_embedded::Servers::delete(&folder.path().join("servers"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            folder.disable_cleanup(true);
            println!("\nFAILED: {why}\n\nlogs, data:  {}\nagain with:  {rerun}", folder.path().display());
            ExitCode::FAILURE
        }
    }
}

async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).expect("a signal");
    let mut terminate = signal(SignalKind::terminate()).expect("a signal");
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

async fn run(settings: &Settings, folder: &Path) -> Result<(), String> {
    let mut dice = Dice::new(settings.seed);
    let scale = Scale { symbolizers: SYMBOLIZERS, indexers: INDEXERS, length: settings.length };
    let strikes = plan_strikes(&mut dice.fork_stream(), &scale);
    let apps = Apps { first: App::from_fixture("app"), next: App::from_fixture("app-next") };
    let kinds = list_kinds(&strikes);
    println!("{} faults are planned; starting servers and services in {}", strikes.len(), folder.display());
    println!("{} kinds of planned faults: {}", kinds.len(), Vec::from_iter(kinds).join(", "));
    println!("in every run: {}", FAULTS_OF_EVERY_RUN.join(", "));
    let world = Arc::new(World::start(folder, &mut dice.fork_stream(), settings.has_history).await);
    act(settings, &world, &mut dice, &apps, strikes).await
}

async fn act(
    settings: &Settings,
    world: &Arc<World>,
    dice: &mut Dice,
    apps: &Apps,
    strikes: Vec<unslide_tests::plan::Strike>,
) -> Result<(), String> {
    let mut names = vec!["builder".to_owned(), "api".to_owned()];
    names.extend((0..SYMBOLIZERS).map(|n| format!("symbolizer-{n}")));
    names.extend((0..INDEXERS).map(|n| format!("indexer-{n}")));
    history::migrate(world).await;
    for name in &names {
        world.start_process(name).await;
    }
    let mut clients = BTreeMap::new();
    let operator;
    {
        let mut installation = world.installation.lock().await;
        for (tenant, _) in TENANTS {
            let key = installation.make_tenant(tenant);
            clients.insert(tenant.to_owned(), Client::new(&installation.url, &key));
        }
        let made = ["key", "create", "--tenant", TENANTS[0].0, "--scope", "operator"];
        let output = installation.command_succeeds(&made);
        let key = output.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key");
        operator = Client::new(&installation.url, key);
        let limit = load::find_limit(settings.reports, settings.length).to_string();
        installation.command_succeeds(&["tenant", "limits", load::LIMITED, "--units-per-second", &limit]);
        for name in &names {
            installation.wait_ready(name).await;
        }
    }
    load::uploads::early(world, &clients, apps).await?;
    alerts::make_rules(world).await?;
    world.note("ready: reports begin to flow");
    let supervisor = {
        let world = Arc::clone(world);
        tokio::spawn(async move { world.supervise().await })
    };
    let killer = {
        let (world, caught) = (Arc::clone(world), unslide_tests::deadly::trap_symbols(&world.objects_proxy));
        tokio::spawn(async move { faults::deadly::strike(&world, caught).await })
    };
    let load = load::run(world, dice.fork_stream(), apps, &clients, (settings.reports, settings.length));
    let uploads = load::uploads::late(world, (&clients, &operator), apps, settings.length);
    let strikes = faults::strike(world, strikes);
    let away = alerts::take_away(world, settings.length);
    let moves = history::strike(world, settings.length);
    let (truth, (), uploaded, (), ()) = tokio::join!(load, strikes, uploads, away, moves);
    uploaded?;
    for proxy in [&world.kafka_proxy, &world.postgres_proxy, &world.objects_proxy] {
        proxy.set_weather(Weather::Fair);
    }
    world.receivers.heal();
    let has_killed = faults::wakes::kill_inside(world, &clients[load::LIMITED], apps).await?;
    if !has_killed && settings.seed == SHORT_SEED {
        return Err("no report waits for the next build, so no builder died inside a wake".to_owned());
    }
    world.note(&format!("the faults are over; Kafka has {} records: {:?}", truth.records, truth.kinds));
    let symbolizers: Vec<String> = names.iter().filter(|n| n.starts_with("symbolizer")).cloned().collect();
    world.pass_tiers(&symbolizers).await;
    drain::drained(world, settings.rest).await?;
    world.note("everything has come to rest");
    killer.abort();
    supervisor.abort();
    history::turn_off_and_on(world, &clients, &names).await?;
    let judged = verdict::judge(world, &names, &truth, settings).await;
    if judged.is_ok() {
        world.note("judged");
    }
    judged
}
