//! The child processes of builders, which are these tests started again, and files that they end at.

use crate::builder_fixture::{World, zip_of};
use crate::feature;
use std::path::Path;
use std::time::Duration;
use unslide_builder::Settings;
use unslide_sandbox::child::ChildProgram;
use unslide_store::objects::ObjectStatus;
use unslide_store::uploads;
use unslide_testkit::fixtures;
use unslide_testkit::macho::{File, many_functions, unit};

/// In the work folder: children wait as long as a line of it is in their request.
const HOLD: &str = "hold";
/// In the folder of a child that waits: the line, and the child's process id.
const WAITING: &str = "waiting";

/// Has children wait that have one of these lines in their request; others go on.
pub fn hold(world: &World, lines: &[&str]) {
    let work = &world.config.builder.work_dir;
    std::fs::create_dir_all(work).unwrap();
    std::fs::write(work.join("new"), lines.join("\n")).unwrap();
    std::fs::rename(work.join("new"), work.join(HOLD)).unwrap();
}

/// No child waits any more.
pub fn release(world: &World) {
    std::fs::remove_file(world.config.builder.work_dir.join(HOLD)).unwrap();
}

/// The process ids of children that wait because of a line.
pub fn waiting(world: &World, line: &str) -> Vec<i32> {
    let folders = std::fs::read_dir(&world.config.builder.work_dir).unwrap();
    let notes = folders.filter_map(|folder| std::fs::read_to_string(folder.ok()?.path().join(WAITING)).ok());
    notes.filter_map(|note| note.strip_prefix(line)?.trim().parse().ok()).collect()
}

/// The line that a child has to wait for.
fn held() -> Option<String> {
    let request = std::fs::read_to_string("request.json").unwrap();
    let lines = std::fs::read_to_string(Path::new("..").join(HOLD)).ok()?;
    lines.lines().find(|line| request.contains(line)).map(str::to_owned)
}

/// What builders start: [`a_child_does_what_its_folder_says`], alone.
pub fn program() -> ChildProgram {
    let test = "child::a_child_does_what_its_folder_says";
    ChildProgram::from_current_exe(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if !Path::new("request.json").exists() {
        return;
    }
    unslide_sandbox::child::end_with_parent().unwrap();
    if let Some(line) = held() {
        std::fs::write("new", format!("{line} {}", std::process::id())).unwrap();
        std::fs::rename("new", WAITING).unwrap();
    }
    while held().is_some() {
        std::thread::sleep(Duration::from_millis(10));
    }
    unslide_builder::serve_child(&[feature::TASK], &[feature::LENGTH, feature::DAMAGED, feature::CODE])
        .unwrap();
}

/// An object with these abbreviations and this unit.
fn object(abbreviations: Vec<u8>, entries: &[u8]) -> Vec<u8> {
    File {
        dwarf: vec![("__debug_info", unit(entries)), ("__debug_abbrev", abbreviations)],
        ..File::default()
    }
    .bytes()
}

/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_ends_at_is_too_complex_and_is_built_where_the_limits_rise() {
    let mut world = World::start(0).await;
    // Entries of one byte with attributes that take none.
    let flags = |attributes: usize, entries: usize| {
        let flags = [0x3F, 0x19].repeat(attributes);
        let abbreviations = [&[1, 0x11, 1, 0, 0, 2, 0x34, 0][..], &flags, &[0, 0, 0]].concat();
        object(abbreviations, &[&[1][..], &vec![2; entries], &[0]].concat())
    };
    let slow = flags(20, 64 << 20);
    let complex = flags(60_000, 200_000);
    let large = many_functions();
    let settings = world.config.builder.clone();
    // One limit at a time: on a slow machine either could be reached first.
    for (name, bytes, limit, builder) in [
        ("complex", &complex, "its functions take more than", settings.clone()),
        ("slow", &slow, "build_cpu", Settings { build_seconds: 1, ..settings.clone() }),
        ("large", &large, "build_memory", Settings { build_bytes: 64 << 20, ..settings }),
    ] {
        world.stop_builders().await;
        world.config.builder = builder;
        world.builder();
        let (upload, objects) = world.wait(world.upload(name, bytes).await).await;
        assert_eq!(upload.reason.as_deref(), Some("nothing_usable"), "{upload:?}");
        let object = &objects[0].object;
        assert_eq!(object.status, ObjectStatus::TooComplex, "{object:?}");
        assert!(object.reason.as_ref().unwrap().contains(limit), "{object:?}");
    }
    // The builder lives.
    assert_eq!(
        world.one("app", &std::fs::read(fixtures::dsym("app")).unwrap()).await.0.status,
        ObjectStatus::Ready
    );
    world.stop_builders().await;
    world.config.builder.build_bytes = 64 << 10;
    world.builder();
    let zip = zip_of(&[("large", &large)]);
    let (upload, _) = world.wait(world.upload("large.zip", &zip).await).await;
    assert_eq!(upload.reason.as_deref(), Some("too_complex"), "unpacking has the limits too: {upload:?}");
    world.stop_builders().await;
    world.config.builder.build_bytes = 2 << 30;
    world.builder();
    let (object, known) = world.one("large", &large).await;
    assert_eq!((object.status, known), (ObjectStatus::Ready, false));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_someone_kills_is_started_again() {
    let world = World::start(1).await;
    hold(&world, &["unpack"]);
    let id = world.upload("app", &std::fs::read(fixtures::dsym("app")).unwrap()).await;
    let mut killed = Vec::new();
    while killed.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for child in
            waiting(&world, "unpack").into_iter().filter(|child| !killed.contains(child)).collect::<Vec<_>>()
        {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), nix::sys::signal::SIGKILL).unwrap();
            killed.push(child);
        }
    }
    release(&world);
    let (upload, objects) = world.wait(id).await;
    assert_eq!((upload.status, objects[0].object.status), (uploads::UploadStatus::Done, ObjectStatus::Ready));
    world.stop().await;
}
