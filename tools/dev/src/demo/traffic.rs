//! `unslide demo --traffic`: a week of two apps, so that the console has something to show: a release that breaks
//! paying because a function was edited, its repair with a dSYM that comes late, a beta without a dSYM, a framework in Swift that traps and recurses,
//! hangs that were sampled, errors of JavaScript, what the system writes of the app (Jetsam event logs, MetricKit's
//! diagnostics), a team that works on groups, and another tenant that sends too much.
//!
//! The reports are the demo's own with other builds, slides, devices and errors; the builds are the demo's dSYM under
//! other UUIDs. The same numbers come with every run.

pub mod builds;
mod hangs;
mod javascript;
mod metrics;
mod progress;
mod sessions;
mod swift;
mod system_reports;
mod team;

use super::{kafka, step, upload};
use crate::dev::Installation;
use builds::{BAD_VERSION, BUILDS, Build, EDITED_PROGRAM, PROGRAM, Program, UploadTime};
pub use progress::count_reports;
use progress::{heal, reports_of, upload_build, wait};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::cmp::Reverse;
use unslide_cli::{AddLine, BoxError, Client, CoreCommand, DemoRun, DemoSymbols, say};
use unslide_model::{Clock, DebugId, SystemClock, first_bytes};

/// Days of traffic, today among them. Kafka keeps a week.
const DAYS: i64 = 6;
/// Reports of crashes for each one about memory.
const REPORTS_PER_MEMORY_EVENT: u32 = 12;
/// The first id of reports about memory. It differs from those of crashes.
const MEMORY_IDS: u64 = 1 << 20;
/// The id of the report that features make their data of.
const FEATURE_REPORT_ID: u64 = 1 << 21;
const DAY_MILLIS: i64 = 86_400_000;
/// Reports of the tenant that sends too much.
const NOISE: u32 = 1_500;
const NOISY: &str = "noisy";
const DEVICES: [&str; 5] = ["iPhone17,1", "iPhone16,1", "iPhone14,5", "iPhone12,8", "iPad14,3"];
const SYSTEMS: [&str; 4] = ["18.1", "18.0.1", "17.6.1", "16.7.10"];

/// The bug with sampled reports.
const HANG: usize = 3;
/// The error that the app reported itself, and survived.
const REFUSED: usize = 4;
/// The sum that overflows in the framework.
const OVERFLOW: usize = 5;
/// The recursion in the framework that fills the stack.
const RECURSION: usize = 6;
/// The bug that is new in the bad release, in the function that was edited there.
const GIFT: usize = 7;
/// The first number of reports about memory.
const MEMORY: usize = 8;
/// The bug that blocked the main thread until the system ended the app.
const DEADLOCK: usize = MEMORY + 3;
/// A record that was cut off on its way: a dead letter.
const BROKEN: &[u8] = br#"{"report": {"id": "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7BFF"}, "crash": {"error": "#;

/// Returns the first frame of the demo's crash that belongs to a bug, and the bug's error.
fn bug(number: usize, address: u64) -> (usize, Value) {
    let mach = |exception: u8, name: &str, code: &str, signal: u8, word: &str| {
        json!({"type": "mach", "address": 0, "mach": {"exception": exception, "exception_name": name, "code": 1,
               "code_name": code, "subcode": 0}, "signal": {"signal": signal, "name": word, "code": 0}})
    };
    match number {
        0 => (0, mach(1, "EXC_BAD_ACCESS", "KERN_INVALID_ADDRESS", 11, "SIGSEGV")),
        1 => (1, mach(6, "EXC_BREAKPOINT", "EXC_ARM_BREAKPOINT", 5, "SIGTRAP")),
        2 => {
            let reason =
                format!("-[OrderController table]: unrecognized selector sent to instance {address:#x}");
            (
                3,
                json!({"type": "nsexception", "nsexception": {"name": "NSInvalidArgumentException"}, "reason": reason,
                       "signal": {"signal": 6, "name": "SIGABRT", "code": 0}}),
            )
        }
        HANG => (5, json!({"type": "hang", "is_fatal": false})),
        OVERFLOW => (3, mach(6, "EXC_BREAKPOINT", "EXC_ARM_BREAKPOINT", 5, "SIGTRAP")),
        GIFT => (2, mach(1, "EXC_BAD_ACCESS", "KERN_INVALID_ADDRESS", 11, "SIGSEGV")),
        RECURSION => (3, mach(1, "EXC_BAD_ACCESS", "KERN_PROTECTION_FAILURE", 10, "SIGBUS")),
        _ => (
            5,
            json!({"type": "user", "user_reported": {"name": "PaymentRefused"}, "reason": "Card 4711 was refused"}),
        ),
    }
}

/// A report that is to be sent.
struct Sent {
    id: String,
    /// The number of its bug.
    bug: usize,
    at_millis: i64,
    body: Vec<u8>,
    run: Run,
}

/// The run of an app that a report is of: its session.
#[derive(Clone)]
struct Run {
    id: String,
    build: &'static Build,
    /// When its report was made.
    at_millis: i64,
    end: RunEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    Crash,
    OutOfMemory { foreground: bool },
    Hang,
    Exit,
}

impl Sent {
    fn from_run(run: Run, bug: usize, report: &Value) -> Result<Sent, BoxError> {
        let id = report["report"]["id"].as_str().unwrap_or_default().to_owned();
        Ok(Sent { id, bug, at_millis: run.at_millis, body: serde_json::to_vec(report)?, run })
    }

    fn timed<'r>(&'r self, tenant: &'r str) -> kafka::TimedReport<'r> {
        let app = self.run.build.app;
        kafka::TimedReport { tenant, app, id: &self.id, at_millis: self.at_millis, body: &self.body }
    }
}

/// The reports of the week, and the runs that they are of.
struct Week {
    before_bad_release: Vec<Sent>,
    /// The newest first, because alerts are about the last day only.
    after: Vec<Sent>,
    runs: Vec<Run>,
}

impl Week {
    fn new(now: i64, random: &mut SmallRng) -> Result<Week, BoxError> {
        let mut week = Week { before_bad_release: Vec::new(), after: Vec::new(), runs: Vec::new() };
        for build in &BUILDS {
            let part =
                if build.is_before_bad_release() { &mut week.before_bad_release } else { &mut week.after };
            part.extend(crashes(build, now, random)?);
            part.extend(memory_events(build, now, random)?);
        }
        week.after.extend(javascript::reports(now, random)?);
        week.after.extend(system_reports::reports(now, random)?);
        week.after.sort_by_key(|sent| Reverse(sent.at_millis));
        let sent = week.before_bad_release.iter().chain(&week.after);
        week.runs = sent.map(|sent| sent.run.clone()).collect();
        Ok(week)
    }
}

/// Sends the week with the data of features, and waits until it is stored.
///
/// # Errors
/// Returns an error if a part is refused or is not stored in time.
pub async fn send(facts: &Installation, client: &Client, add_lines: &[AddLine]) -> Result<(), BoxError> {
    step("1/5", "build pipelines upload the dSYMs and a source map of two apps");
    for build in BUILDS.iter().filter(|build| build.upload == UploadTime::Before) {
        upload_build(client, build).await?;
    }
    upload(client, "Loyalty.dSYM.zip", swift::DSYM.into()).await?;
    upload(client, "main.jsbundle.map", javascript::source_map()?.into()).await?;
    let (own, edited) = (list_uploaded_ids(&PROGRAM)?, list_uploaded_ids(&EDITED_PROGRAM)?);
    let programs = [
        DemoSymbols { debug_ids: &own, sources: &PROGRAM.sources },
        DemoSymbols { debug_ids: &edited, sources: &EDITED_PROGRAM.sources },
    ];
    for add_line in add_lines {
        if let Some(done) = add_line(client, CoreCommand::DemoBegin(&programs)).await? {
            say!("      {done}");
        }
    }
    step("2/5", "a week of reports goes to Kafka: first those from before the bad release, which are stored");
    let mut random = SmallRng::seed_from_u64(7);
    let now = SystemClock.now().unix_timestamp() * 1_000;
    let Week { before_bad_release, after, runs } = Week::new(now, &mut random)?;
    kafka::produce_all(facts, before_bad_release.iter().map(|sent| sent.timed(&facts.tenant))).await?;
    let before = before_bad_release.len();
    wait(client, |apps| reports_of(apps) >= before as u64).await?;
    team::work(client, &before_bad_release).await?;
    say!("      {before} reports; the team makes alert rules, and resolves, assigns and merges groups");
    step("3/5", "the others follow, some of a tenant that sends too much, and come back symbolicated");
    let _: Value = client.post("/v1/tenants", &json!({"id": NOISY})).await?;
    let mut noise = Vec::new();
    for number in 0..NOISE {
        noise.push(report(&BUILDS[4], 0, u64::from(number), now, &mut random)?);
    }
    let (tenant, app) = (facts.tenant.as_str(), BUILDS[0].app);
    let broken = kafka::TimedReport { tenant, app, id: "broken", at_millis: now, body: BROKEN };
    let own = after.iter().map(|sent| sent.timed(&facts.tenant)).chain([broken]);
    kafka::produce_all(facts, own.chain(noise.iter().map(|sent| sent.timed(NOISY)))).await?;
    let own = before + after.len();
    say!("      {own} of two apps, {NOISE} of the tenant `{NOISY}`, and a broken record");
    say!("      {} sessions (POST /v1/sessions)", sessions::send(client, &runs, now, &mut random).await?);
    let payloads = metrics::send(client, &runs, now, &mut random).await?;
    say!("      {payloads} metric payloads (POST /v1/metrics)");
    step("4/5", "all are stored, and files of a device are analysed");
    wait(client, |apps| reports_of(apps) >= own as u64).await?;
    let (_, report) = made(&BUILDS[3], 0, FEATURE_REPORT_ID, now, &mut random)?;
    let (app, version) = (BUILDS[3].app, BUILDS[3].version);
    let run = DemoRun { app, version, session_id: find_memory_run(&runs)?, report: &report };
    for add_line in add_lines {
        if let Some(sent) = add_line(client, CoreCommand::Demo(run)).await? {
            say!("      of Cafe 2.5.1: {sent}");
        }
    }
    team::mend(client, &after).await?;
    say!(
        "      the bug that is new in Cafe {BAD_VERSION} is resolved: its page says which function was edited, and whether it is fixed"
    );
    step("5/5", "the dSYM of Cafe 2.5.1 comes late: its reports heal themselves");
    for build in BUILDS.iter().filter(|build| build.upload == UploadTime::Late) {
        upload_build(client, build).await?;
        heal(client, build).await?;
    }
    Ok(())
}

/// Returns the debug ids of the builds of a program that are uploaded before their reports.
fn list_uploaded_ids(program: &Program) -> Result<Vec<DebugId>, BoxError> {
    let uploaded = BUILDS
        .iter()
        .filter(|build| build.upload == UploadTime::Before && build.program().uuid == program.uuid);
    Ok(uploaded.map(|build| build.uuid.parse()).collect::<Result<_, _>>()?)
}

/// Returns a run that ended out of memory. The page of its report links to the data of features.
fn find_memory_run(runs: &[Run]) -> Result<&str, BoxError> {
    let is_it =
        |run: &&Run| run.build.version == BUILDS[3].version && matches!(run.end, RunEnd::OutOfMemory { .. });
    let run = runs.iter().find(is_it).ok_or("no run of the repair ended out of memory")?;
    Ok(&run.id)
}

/// Returns the begin of each day in milliseconds, and its reports.
fn days(build: &Build, now: i64) -> impl Iterator<Item = (i64, u32)> {
    let today = now - now % DAY_MILLIS;
    let days = (0..).map(move |day: i64| today - (DAYS - 1 - day) * DAY_MILLIS);
    days.zip(build.days)
}

/// Creates the crashes and hangs of a build.
fn crashes(build: &'static Build, now: i64, random: &mut SmallRng) -> Result<Vec<Sent>, BoxError> {
    let mut reports = Vec::new();
    for (begin, count) in days(build, now) {
        for _ in 0..count {
            let at = random.random_range(begin..(begin + DAY_MILLIS).min(now));
            let mut left = random.random_range(0..build.bugs.iter().sum::<u32>());
            let found = build.bugs.iter().position(|weight| {
                let hit = left < *weight;
                left = left.saturating_sub(*weight);
                hit
            });
            let number = reports.len() as u64;
            reports.push(report(build, found.unwrap_or(0), number, at, random)?);
        }
    }
    Ok(reports)
}

/// Ends out of memory, blocked main threads and memory warnings of a build, for a part of its reports.
fn memory_events(build: &'static Build, now: i64, random: &mut SmallRng) -> Result<Vec<Sent>, BoxError> {
    let mut events = Vec::new();
    for (begin, count) in days(build, now) {
        for _ in 0..count.div_ceil(REPORTS_PER_MEMORY_EVENT) {
            let at = random.random_range(begin..(begin + DAY_MILLIS).min(now));
            let number = events.len() as u64;
            let (mut run, mut report) = made(build, 0, MEMORY_IDS + number, at, random)?;
            run.end = tell_of_memory(&mut report, number, at);
            events.push(Sent::from_run(run, MEMORY + events.len() % 4, &report)?);
        }
    }
    Ok(events)
}

/// Replaces a crash by a report about memory, and says how the run ended.
fn tell_of_memory(report: &mut Value, number: u64, at: i64) -> RunEnd {
    let stack = report["crash"]["threads"][0]["backtrace"].clone();
    if let Some(members) = report.as_object_mut() {
        members.remove("crash");
    }
    match number % 4 {
        0 | 1 => {
            report["crash_type"] = json!("foom_crash");
            let foreground = number.is_multiple_of(4);
            report["appState"] = json!(if foreground { "foreground" } else { "background" });
            report["system"]["app_memory"] = json!({"memory_footprint": 1_930_000_000_u64, "memory_limit": 2_098_200_576_u64, "memory_pressure": "critical"});
            report["stack_oom"] = json!([
                {"frames": stack["contents"], "size": 734_003_200, "count": 1_400},
                {"frames": stack["contents"].as_array().map(|frames| frames.iter().skip(2).collect::<Vec<_>>()),
                 "size": 52_428_800, "count": 12}]);
            RunEnd::OutOfMemory { foreground }
        }
        2 => {
            report["singleMemory"] = json!("1432.5");
            report["threshold"] = json!("1200");
            report["LaunchTime"] = json!((at / 1_000).to_string());
            RunEnd::Exit
        }
        _ => {
            report["crash_type"] = json!("deadlock_crash");
            report["stack_deadlock"] = json!({"index": 0, "backtrace": stack});
            RunEnd::Hang
        }
    }
}

/// Creates the demo's crash as this build, on some device, at this time, with this bug.
fn report(
    build: &'static Build,
    number: usize,
    id: u64,
    at: i64,
    random: &mut SmallRng,
) -> Result<Sent, BoxError> {
    let (run, report) = made(build, number, id, at, random)?;
    Sent::from_run(run, number, &report)
}

/// Creates the same before it is written, and its run.
fn made(
    build: &'static Build,
    number: usize,
    id: u64,
    at: i64,
    random: &mut SmallRng,
) -> Result<(Run, Value), BoxError> {
    let mut report: Value = serde_json::from_slice(build.program().crash)?;
    let end = id << 20 | random.random_range(0..1_u64 << 20);
    let id = format!("{}-{end:012X}", first_bytes(build.uuid, 23));
    let (first, error) = bug(number, 0x1_0000_0000 + random.random_range(0..0x1000_u64) * 16);
    let person = random.random_range(0..200_u32);
    let system = SYSTEMS[person as usize % SYSTEMS.len()];
    let device = DEVICES[person as usize / 7 % DEVICES.len()];
    let run = format!("{}-4000-8000-{end:012X}", first_bytes(&id, 13));
    report["report"]["id"] = json!(id);
    report["report"]["run_id"] = json!(run);
    report["report"]["timestamp"] = json!(at * 1_000);
    for (key, value) in [
        ("CFBundleIdentifier", build.app),
        ("CFBundleName", build.name),
        ("CFBundleShortVersionString", build.version),
        ("CFBundleVersion", build.number),
        ("system_version", system),
        ("machine", device),
        ("app_uuid", build.uuid),
    ] {
        report["system"][key] = json!(value);
    }
    report["system"]["device_app_hash"] = json!(format!("{:040x}", u64::from(person) + 1));
    report["crash"]["error"] = error;
    report["binary_images"][0]["uuid"] = json!(build.uuid);
    move_image(&mut report, random.random_range(0..1_u64 << 12) << 14);
    if number == HANG {
        hangs::sample(&mut report, build, random)?;
    }
    for frames in backtraces(&mut report) {
        frames.drain(..first.min(frames.len()));
    }
    stop_at_first_frame(&mut report, first);
    if matches!(number, OVERFLOW | RECURSION) {
        swift::crash_in_framework(&mut report, number)?;
    }
    let end = if matches!(number, HANG | REFUSED) { RunEnd::Exit } else { RunEnd::Crash };
    Ok((Run { id: run, build, at_millis: at, end }, report))
}

/// Lets the registers of the crashed thread be those of its first frame. Those of the demo's crash itself are right if no frame
/// was left out.
fn stop_at_first_frame(report: &mut Value, left_out: usize) {
    let thread = &mut report["crash"]["threads"][0];
    let pc = thread["backtrace"]["contents"][0]["instruction_addr"].clone();
    let lr = thread["backtrace"]["contents"][1]["instruction_addr"].clone();
    let registers = &mut thread["registers"];
    if left_out > 0 {
        let basic = &registers["basic"];
        *registers = json!({"basic": {"sp": basic["sp"], "fp": basic["fp"]}});
    }
    registers["basic"]["pc"] = pc;
    registers["basic"]["lr"] = lr;
}

/// Returns the frames of each thread.
fn backtraces(report: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    let threads = report["crash"]["threads"].as_array_mut().into_iter().flatten();
    threads.filter_map(|thread| thread["backtrace"]["contents"].as_array_mut())
}

/// Loads the app's image elsewhere.
fn move_image(report: &mut Value, by: u64) {
    let add = |value: &mut Value| *value = json!(value.as_u64().unwrap_or_default() + by);
    let base = report["binary_images"][0]["image_addr"].clone();
    add(&mut report["binary_images"][0]["image_addr"]);
    for frames in backtraces(report) {
        for frame in frames.iter_mut().filter(|frame| frame["object_addr"] == base) {
            add(&mut frame["object_addr"]);
            add(&mut frame["instruction_addr"]);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::io::{Cursor, Read};
    use std::sync::Arc;
    use unslide_report::{ReadLimits, Report};
    use unslide_symbolicate::object::{build_symcache, list_objects};
    use unslide_symbolicate::symcache::SymCache;
    use unslide_symbolicate::{Context, ImageSymbols, Plan};

    /// Builds the symbols of a dSYM in this process, without its limits.
    pub fn symbols_from_archive(archive: &[u8]) -> (DebugId, ImageSymbols) {
        let mut archive = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
        let mut bytes = Vec::new();
        for number in 0..archive.len() {
            let mut file = archive.by_index(number).unwrap();
            if file.is_file() && file.name().unwrap().contains("/DWARF/") {
                file.read_to_end(&mut bytes).unwrap();
            }
        }
        let slice = list_objects(&bytes).unwrap().remove(0);
        let symcache = SymCache::parse(build_symcache(&bytes[slice.range]).unwrap().symcache).unwrap();
        (slice.object.unwrap().debug_id.unwrap(), ImageSymbols::from_symcache(Arc::new(symcache)))
    }

    #[test]
    fn the_new_bug_of_the_bad_release_is_in_the_function_that_was_edited() {
        for program in [&PROGRAM, &EDITED_PROGRAM] {
            let report: Value = serde_json::from_slice(program.crash).unwrap();
            assert_eq!(report["binary_images"][0]["uuid"], program.uuid);
            assert_eq!(symbols_from_archive(program.dsym).0, program.uuid.parse::<DebugId>().unwrap());
        }
        let build = BUILDS.iter().find(|build| build.version == BAD_VERSION).unwrap();
        let (own, symbols) = symbols_from_archive(build.program().dsym);
        let mut random = SmallRng::seed_from_u64(7);
        let sent = super::report(build, GIFT, 1, 1_800_000_000_000, &mut random).unwrap();
        let body = String::from_utf8(sent.body).unwrap().replace(build.uuid, build.program().uuid);
        let read = Report::read(body.as_bytes(), &ReadLimits::default()).unwrap();
        let enriched =
            Plan::new(&read).enrich_within(&|id| (*id == own).then_some(&symbols), &Context::default());
        let title = enriched.grouping.unwrap().title;
        assert!(title.ends_with("cafe_charge"), "{title}");
    }

    #[test]
    fn every_build_has_reports_whose_ids_differ() {
        let mut random = SmallRng::seed_from_u64(7);
        let now = 1_800_000_000_000;
        let (mut ids, mut runs) = (BTreeSet::new(), BTreeSet::new());
        let mut count = 0;
        for build in &BUILDS {
            let week = crashes(build, now, &mut random).unwrap();
            assert_eq!(week.len() as u32, build.days.iter().sum::<u32>());
            assert!(week.iter().all(|sent| sent.at_millis < now && sent.at_millis > now - 6 * DAY_MILLIS));
            let memory = memory_events(build, now, &mut random).unwrap();
            count += week.len() + memory.len();
            for sent in week.into_iter().chain(memory) {
                ids.insert(sent.id);
                runs.insert(sent.run.id);
            }
            assert!(build.uuid.parse::<DebugId>().is_ok());
        }
        assert_eq!((ids.len(), runs.len()), (count, count));
        assert!(ids.iter().chain(&runs).all(|id| id.parse::<unslide_model::ReportId>().is_ok()));
    }

    #[test]
    fn every_report_has_a_session_and_the_bugs_of_the_team_come_before_the_bad_release() {
        let week = Week::new(1_800_000_000_000, &mut SmallRng::seed_from_u64(7)).unwrap();
        let sent = || week.before_bad_release.iter().chain(&week.after);
        let runs: BTreeSet<_> = week.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(runs.len(), sent().count());
        for sent in sent() {
            let report: Value = serde_json::from_slice(&sent.body).unwrap();
            assert!(runs.contains(report["report"]["run_id"].as_str().unwrap()), "{}", sent.id);
        }
        let of_memory = week.runs.iter().filter(|run| matches!(run.end, RunEnd::OutOfMemory { .. }));
        assert!(of_memory.count() > 10);
        assert!(find_memory_run(&week.runs).is_ok());
        let bugs: BTreeSet<_> = week
            .before_bad_release
            .iter()
            .filter(|sent| sent.run.build.version == "2.4.0")
            .map(|sent| sent.bug)
            .collect();
        assert_eq!(bugs, (0..=DEADLOCK).filter(|bug| *bug != GIFT).collect());
        assert!(serde_json::from_slice::<Value>(BROKEN).is_err());
        assert!(week.after.windows(2).all(|pair| pair[0].at_millis >= pair[1].at_millis));
    }
}
