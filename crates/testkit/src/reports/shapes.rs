//! One report of every shape that is known.

use super::{ARM64, ARM64_32, ARM64E, ARMV7, Error, Frame, I386, Image, Json, Report, Style, Thread, X86_64};
use unslide_model::CpuType;

const APP: u64 = 0x1_0000_4000;
const LIBRARY: u64 = 0x1_9000_0000;
const APP_ID: &str = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0";
const LIBRARY_ID: &str = "363F8E49-2D2A-3A26-BF90-60D6A8896CF0";
const APP_PATH: &str = "/private/var/containers/Bundle/Application/Shop.app/Shop";

type Shape = fn() -> Report;

/// A name and a report for each version, type, error, CPU and peculiarity of the format.
/// Always the same; the white space varies over them.
#[must_use]
pub fn shapes() -> Vec<(String, Report)> {
    let mut shapes = Vec::new();
    for error in Error::ALL {
        let name = format!("error-{error:?}");
        shapes.push((name, with_error(error)));
    }
    for version in ["2.0", "3.1.0", "3.2.0", "3.3.0", "3.4.1", "3.5.0", "3.6.0", "3.7.1", "3.9.0"] {
        shapes.push((format!("version-{version}"), of_version(version)));
    }
    for (name, cpu) in [
        ("arm64", ARM64),
        ("arm64e", ARM64E),
        ("arm64_32", ARM64_32),
        ("armv7", ARMV7),
        ("x86_64", X86_64),
        ("i386", I386),
    ] {
        shapes.push((format!("cpu-{name}"), on(cpu)));
    }
    let more: [(&str, Shape); 26] = [
        ("minimal", minimal),
        ("recrash-outer-minimal", recrash),
        ("recrash-inner-minimal", old_recrash),
        ("recrash-five-deep", || (0..5).fold(standard(), |inner, _| minimal().recrash(inner))),
        ("custom", || Report::empty().set("report.type", "custom").set("payload", Json::from(1))),
        ("metric-kit", metric_kit),
        ("profile", || standard().profile_frames(frames().map(|f| f.uuid(APP_ID))).without("binary_images")),
        ("last-exception", || with_error(Error::NsException).version("3.9.0").last_exception(frames())),
        ("deallocated-exception", || standard().deallocated_exception(0x1111, frames())),
        ("images-last", || standard().images_last()),
        ("sorted-compact", || standard().sorted().style(Style::Compact)),
        ("negative-addresses", || spelled(Json::negative)),
        ("float-addresses", || spelled(Json::float)),
        ("signed-pointers", || spelled(|address| Json::from(address | 0x0063_5f00_0000_0000))),
        ("stack-overflow", || standard().thread(Thread::new(9).frames(frames()).skipped(64_862))),
        ("translated", || on(X86_64).set("system.proc_translated", true).set("system.cpu_arch", "arm64e")),
        ("cut-off", cut_off),
        ("rich", rich),
        ("not-merged", not_merged),
        ("empty-timestamp", || standard().set("report.timestamp", "")),
        ("infinite-floats", infinite),
        ("image-without-uuid", || standard().set("binary_images.0.uuid", Json::null())),
        ("out-of-memory", out_of_memory),
        ("memory-warning", || {
            standard().without("crash").set("user.singleMemory", "1432.5").set("user.threshold", "1200")
        }),
        ("jetsam", jetsam),
        ("process-as-array", || standard().set("process", Json::array([]))),
    ];
    shapes.extend(more.into_iter().map(|(name, make)| (name.to_owned(), make())));
    for (n, (_, report)) in shapes.iter_mut().enumerate() {
        let style = [Style::Pretty, Style::Apple, Style::Compact, Style::Wild(n as u64)][n % 4];
        *report = report.clone().style(style);
    }
    shapes
}

/// What an app finds at the start after an end for lack of memory, with what it sampled before.
fn out_of_memory() -> Report {
    let stack = || standard().json().clone().at("crash.threads.0.backtrace").clone();
    let held =
        |key: &str| Json::object([(key, stack()), ("size", Json::from("1024")), ("count", Json::from(3))]);
    standard()
        .without("crash")
        .set("crash_type", "foom_crash")
        .set("appState", "background")
        .set("stack_deadlock.backtrace", stack())
        .set("stack_oom", Json::array([held("backtrace"), held("frames"), Json::from(1)]))
}

fn jetsam() -> Report {
    let process = |name: &str| Json::object([("name", Json::from(name)), ("rpages", Json::from(9))]);
    let mut killed = process("Shop");
    killed.append("reason", Json::from("per-process-limit"));
    Report::empty()
        .set("memoryStatus.pageSize", 16_384)
        .set("processes", Json::array([process("Maps"), killed]))
}

fn images() -> [Image; 2] {
    [
        Image::new(APP_PATH, APP_ID, APP).vmaddr(0x1_0000_0000),
        Image::new("/System/Library/Frameworks/UIKit.framework/UIKit", LIBRARY_ID, LIBRARY).cpu(ARM64E),
    ]
}

fn frames() -> [Frame; 4] {
    [
        Frame::at(APP + 0x1000).object("Shop", APP).symbol("$s4Shop4CartV3addyySiF", APP + 0xf00),
        Frame::at(LIBRARY + 0x2044).object("UIKit", LIBRARY).symbol("-[UIView layout]", LIBRARY + 0x2000),
        Frame::at(APP + 0x3008).object("Shop", APP).symbol("<redacted>", APP),
        Frame::at(0x7_0000_0000),
    ]
}

fn standard() -> Report {
    let other = Thread::new(1).name("com.example.worker").frames(frames()).all_registers(ARM64, APP + 0x1000);
    Report::standard()
        .images(images())
        .thread(
            Thread::new(0)
                .crashed()
                .queue("com.apple.main-thread")
                .frames(frames())
                .all_registers(ARM64, APP + 0x1000),
        )
        .thread(other)
        .thread(Thread::new(2).current().without("current_thread").set("state", "TH_STATE_WAITING"))
}

fn with_error(error: Error) -> Report {
    let report = standard().error(error);
    match error {
        // Raised in the process itself: the crashed thread is the handler's and has no registers.
        Error::NsException | Error::CppException | Error::User | Error::UserObjects => {
            report.set("crash.threads.0.current_thread", true).without("crash.threads.0.registers")
        }
        Error::Profile => report.profile_frames(frames()).set("crash.threads", Json::array([])),
        error if error.has_threads() => report,
        _ => report.set("crash.threads", Json::array([])).set("binary_images", Json::array([])),
    }
}

fn of_version(version: &str) -> Report {
    let report = standard().version(version);
    match version {
        "2.0" => report
            .set("report.timestamp", "1970-01-18T03:47:06Z")
            .without("binary_images.0.image_vmaddr")
            .without("binary_images.1.image_vmaddr")
            .without("debug")
            .sorted(),
        "3.1.0" => report
            .set("report.timestamp", Json::from(1_478_560_643))
            .set("system_atcrash.app_uuid", APP_ID)
            .set("user_atcrash.seen", true),
        "3.2.0" => report.set("report.timestamp", Json::from(1_478_560_643)),
        "3.7.1" => report.set("report.monitor_id", "MachException"),
        "3.9.0" => report
            .set("report.monitor_id", "MachException")
            .set("report.run_id", "c0ffee00-4b5a-4978-8796-a5b4c3d2e1f0")
            .set("report.finalized", true)
            .set("report.timestamp", "2025-11-20T10:00:00.123456Z")
            .set("crash.error.is_fatal", true)
            .set("crash.threads.0.backtrace.contents.0.object_uuid", APP_ID)
            .set("system.thermal_state", Json::from(0)),
        _ => report,
    }
}

fn on(cpu: CpuType) -> Report {
    let shift = if cpu.family().is_32_bit() { 0xf_ff00_0000 } else { 0 };
    let thumb = u64::from(cpu == ARMV7);
    let app = APP.wrapping_sub(shift) & 0xffff_ffff;
    let base = if shift > 0 { app } else { APP };
    Report::standard()
        .image(Image::new(APP_PATH, APP_ID, base).vmaddr(0x4000).cpu(cpu))
        .thread(
            Thread::new(0)
                .crashed()
                .frames([Frame::at(base + 0x1000), Frame::at(base + 0x2010 + thumb)])
                .all_registers(cpu, base + 0x1000),
        )
        .set("system.cpu_type", u64::from(cpu.cpu_type))
        .set("system.binary_cpu_type", u64::from(cpu.cpu_type))
        .set("system.binary_cpu_subtype", u64::from(cpu.cpu_subtype))
        .set("system.cpu_arch", cpu.name())
}

fn minimal() -> Report {
    Report::standard()
        .without("binary_images")
        .without("system")
        .without("process")
        .without("user")
        .set("report.type", "minimal")
        .set("report.process_name", Json::null())
        .crashed_thread(Thread::new(7).crashed().name("Exception Handler").frames(frames()))
}

fn recrash() -> Report {
    minimal().recrash(standard().id("AAAAAAAA-1963-41AB-A65F-E0F98EF29DFB"))
}

fn old_recrash() -> Report {
    of_version("2.0").set("incomplete", true).recrash(minimal().without("report.version"))
}

fn metric_kit() -> Report {
    let bare = |name: &str, id: &str, at| {
        Image::new(name, id, at)
            .size(0)
            .without("image_vmaddr")
            .set("cpu_type", Json::from(0))
            .set("cpu_subtype", Json::from(0))
    };
    Report::standard()
        .version("3.9.0")
        .set("report.monitor_id", "MetricKit")
        .set("report.finalized", true)
        .set("crash.error.nsexception.reason", "from the payload")
        .images([bare("Shop", APP_ID, APP), bare("UIKit", LIBRARY_ID, LIBRARY)])
        .thread(Thread::new(0).crashed().frames([
            Frame::at(APP + 0x1000).object("Shop", APP).uuid(APP_ID),
            Frame::at(LIBRARY + 0x2044).object("UIKit", LIBRARY).uuid(LIBRARY_ID),
        ]))
}

fn spelled(spell: impl Fn(u64) -> Json) -> Report {
    let addresses = [0xffff_ffff_8000_4000, 0xffff_ffff_ffff_ffff, APP + 0x1000];
    let registers = Json::object([("pc", spell(addresses[0]))]);
    standard().thread(
        Thread::new(3)
            .frames(addresses.map(|address| Frame::of(spell(address))))
            .set("registers.basic", registers),
    )
}

/// As a 2.6 library wrote it, before the next launch merges what the system was.
fn not_merged() -> Report {
    of_version("3.9.0")
        .without("report.finalized")
        .set("report.process_name", Json::null())
        .set("system", Json::Object(Vec::new()))
}

/// Infinity as the encoder writes it: JSON that no double holds.
fn infinite() -> Report {
    standard()
        .set("system.application_stats.active_time_since_launch", Json::Raw("1e999".into()))
        .set("crash.threads.0.registers.basic.x1", Json::Raw("1e999".into()))
        .set("user.lowest", Json::Raw("-1e999".into()))
}

/// A first report that was cut off in the middle and put into the second one as it was.
fn cut_off() -> Report {
    let mut inner =
        standard().set("crash.threads.1", "backtrace").set("crash.threads.2", Json::Raw("12".into()));
    inner =
        inner.set("binary_images.1", "image_addr").set("crash.threads.0.backtrace.contents.2", Json::null());
    minimal().recrash(inner)
}

/// What the other shapes leave out: memory, introspection, texts of images, the app's own data.
fn rich() -> Report {
    let object = Json::object([
        ("address", Json::from(0x2_8000_1230_u64)),
        ("type", Json::from("objc_object")),
        ("class", Json::from("NSTaggedPointerString")),
        ("value", Json::from("a \"quoted\" \u{e4}\u{1f600}\n")),
        ("ivars", Json::object([("_count", Json::from(3)), ("_ratio", Json::Raw("1e308".into()))])),
    ]);
    let failed =
        Json::object([("error", "Invalid character"), ("json_data", "{broken")].map(|(k, v)| (k, v.into())));
    standard()
        .version("3.8.0")
        .set("incomplete", true)
        .set(
            "binary_images.1.crash_info_message2",
            "Fatal error: Index out of range: file Cart.swift, line 40\n",
        )
        .set("crash.threads.0.notable_addresses.x0", object.clone())
        .set("crash.threads.0.notable_addresses.stack@0x16fdfe000", object.clone())
        .set("crash.threads.0.stack.grow_direction", "-")
        .set("crash.threads.0.stack.dump_start", Json::from(0x1_6fdf_e000_u64))
        .set("crash.threads.0.stack.dump_end", Json::from(0x1_6fdf_e0f0_u64))
        .set("crash.threads.0.stack.overflow", false)
        .set("crash.threads.0.stack.contents", "00E0DF6F01000000".repeat(8))
        .set("crash.threads.0.registers.exception.esr", Json::from(0x9200_0006_u64))
        .set("crash.diagnosis", "Attempted to dereference garbage pointer 0x10.")
        .set("crash.error.nsexception.referenced_object", object)
        .set("process.last_dealloced_nsexception.address", Json::from(0x1111))
        .set("system.storage", Json::from(994_662_584_320_u64))
        .set("system.freeStorage", Json::from(94_662_584_320_u64))
        .set("system.app_memory.memory_footprint", Json::from(337_657_856))
        .set("system.app_memory.memory_level", "urgent")
        .set("system.battery_level", Json::from(80))
        .set("user.cart", failed)
        .duplicate("user", "cart", 7)
        .set("debug.console_log", Json::array(["launched", "tapped \u{2028} \\ /"].map(Json::from)))
        .set("sentry_sdk_scope.tags", Json::array([]))
}
