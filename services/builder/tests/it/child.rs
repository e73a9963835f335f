//! The child processes of builders, which are these tests started again, and files that they end at.

use crate::world::{World, zip_of};
use std::path::Path;
use std::time::Duration;
use unslide_builder::Settings;
use unslide_runtime::child::ChildProgram;
use unslide_store::objects::ObjectStatus;
use unslide_store::uploads;
use unslide_testkit::fixtures;
use unslide_testkit::macho::{File, many_functions, unit};

/// In the work folder: children wait as long as it is there.
const HOLD: &str = "hold";
/// In the work folder: the process id of a child that waits.
const WAITING: &str = "waiting";

/// What builders start: [`a_child_does_what_its_folder_says`], alone.
pub fn program() -> ChildProgram {
    let test = "child::a_child_does_what_its_folder_says";
    ChildProgram::current(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if !Path::new("request.json").exists() {
        return;
    }
    let work = Path::new("..");
    if work.join(HOLD).exists() {
        std::fs::write(work.join("new"), std::process::id().to_string()).unwrap();
        std::fs::rename(work.join("new"), work.join(WAITING)).unwrap();
    }
    while work.join(HOLD).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    unslide_builder::serve_child().unwrap();
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
    // Entries of one byte with 60,000 attributes that take none.
    let flags = [&[1, 0x11, 1, 0, 0, 2, 0x34, 0][..], &[0x3F, 0x19].repeat(60_000), &[0, 0, 0]].concat();
    let slow = object(flags, &[&[1][..], &[2; 200_000], &[0]].concat());
    let large = many_functions();
    let settings = world.config.builder.clone();
    // One limit at a time: on a slow machine either could be reached first.
    for (name, bytes, limit, builder) in [
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
    let work = &world.config.builder.work_dir;
    std::fs::create_dir_all(work).unwrap();
    std::fs::write(work.join(HOLD), "").unwrap();
    let id = world.upload("app", &std::fs::read(fixtures::dsym("app")).unwrap()).await;
    for _ in 0..2 {
        let child: i32 = loop {
            if let Ok(child) = std::fs::read_to_string(work.join(WAITING)) {
                break child.parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        std::fs::remove_file(work.join(WAITING)).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), nix::sys::signal::SIGKILL).unwrap();
    }
    std::fs::remove_file(work.join(HOLD)).unwrap();
    let (upload, objects) = world.wait(id).await;
    assert_eq!((upload.status, objects[0].object.status), (uploads::UploadStatus::Done, ObjectStatus::Ready));
    std::fs::remove_file(work.join(WAITING)).ok();
    world.stop().await;
}
