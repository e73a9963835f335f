//! Ids, images borrowed between parts, and what a part says of itself.

use crate::{enrich, read};
use unslide_report::ErrorKind;
use unslide_testkit::reports::{self, ARM64, Error, Image, Json, Report, X86_64};

const ID: &str = "ec55b54f-1963-41ab-a65f-e0f98ef29dfb";
const INNER: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

fn id(report: &Report) -> String {
    read(&report.bytes()).id.to_string()
}

#[test]
fn a_report_has_its_own_id_or_the_embedded_ones() {
    let inner = Report::standard().id(INNER);
    let outer = Report::standard().id(&ID.to_uppercase()).recrash(inner);
    assert_eq!(id(&outer), ID);
    assert_eq!(id(&outer.clone().without("report.id")), INNER);
    assert_eq!(id(&outer.clone().without("report")), INNER);
    assert_eq!(id(&outer.clone().set("report.id", Json::null())), INNER);
    // What is no UUID is no id.
    assert_eq!(id(&outer.clone().id("")), INNER);
    assert_eq!(id(&outer.id("EC55B54F-1963-41AB-A65F")), INNER);
}

#[test]
fn a_report_without_id_is_known_by_its_bytes() {
    // printf '{"a": 1}' | sha256sum
    assert_eq!(read(br#"{"a": 1}"#).id.to_string(), "f9d86028-c6e0-d64e-2251-86f96acb6933");
    let bytes = br#"{"a":1} "#;
    assert_ne!(read(bytes).id, read(br#"{"a":1}"#).id);
    // What we add changes nothing.
    assert_eq!(read(&enrich(bytes)).id, read(bytes).id);
}

#[test]
fn a_part_without_images_takes_the_nearest_ones() {
    let none = || Report::empty();
    let some = || Report::empty().image(Image::new("/a", ID, 1));
    let sources = |report: &Report| -> Vec<Option<usize>> {
        read(&report.bytes()).parts.iter().map(|part| part.image_source).collect()
    };
    assert_eq!(sources(&none()), [None]);
    assert_eq!(sources(&some()), [Some(0)]);
    assert_eq!(sources(&none().recrash(some())), [Some(1), Some(1)]);
    assert_eq!(sources(&some().recrash(none())), [Some(0), Some(0)]);
    assert_eq!(sources(&some().recrash(some())), [Some(0), Some(1)]);
    assert_eq!(sources(&none().recrash(none())), [None, None]);
    assert_eq!(sources(&some().recrash(none().recrash(some()))), [Some(0), Some(2), Some(2)]);
    assert_eq!(sources(&some().recrash(none().recrash(none()))), [Some(0), Some(0), Some(0)]);
    // A list of nothing, or of what are no images, is none.
    assert_eq!(sources(&none().set("binary_images", Json::array([])).recrash(some())), [Some(1), Some(1)]);
    assert_eq!(
        sources(&none().set("binary_images", Json::array(["x".into()])).recrash(some())),
        [Some(1), Some(1)]
    );
}

#[test]
fn a_part_tells_its_kind() {
    for error in Error::ALL {
        let bytes = Report::standard().error(error).set("report.monitor_id", error.monitor_id()).bytes();
        let report = read(&bytes);
        let kind = match error {
            Error::Mach | Error::FatalHang => ErrorKind::Mach,
            Error::Signal => ErrorKind::Signal,
            Error::NsException => ErrorKind::NsException,
            Error::CppException => ErrorKind::CppException,
            Error::User | Error::UserObjects => ErrorKind::User,
            Error::Deadlock => ErrorKind::Deadlock,
            Error::Hang => ErrorKind::Hang,
            Error::Profile => ErrorKind::Profile,
            Error::MemoryTermination | Error::Termination | Error::Plugin => ErrorKind::Other,
        };
        assert_eq!(report.parts[0].error_kind(), kind, "{error:?}");
        assert_eq!(report.parts[0].is_profile(), error == Error::Profile);
        assert!(!report.parts[0].is_metric_kit() && !report.parts[0].is_minimal());
    }
    let part = |path, value: &str| {
        let bytes = Report::standard().set(path, value).bytes();
        let report = read(&bytes);
        let part = &report.parts[0];
        (part.is_profile(), part.is_metric_kit(), part.is_minimal())
    };
    assert_eq!(part("report.monitor_id", "profile"), (true, false, false));
    assert_eq!(part("report.monitor_id", "MetricKit"), (false, true, false));
    assert_eq!(part("report.type", "minimal"), (false, false, true));
    assert_eq!(read(b"{}").parts[0].error_kind(), ErrorKind::Other);
}

#[test]
fn the_crash_of_interest_is_not_the_handlers() {
    let standard = || Report::empty().set("report.type", "standard");
    let minimal = || Report::empty().set("report.type", "minimal");
    let main = |report: &Report| read(&report.bytes()).main_part();
    assert_eq!(main(&standard()), 0);
    assert_eq!(main(&minimal()), 0);
    assert_eq!(main(&minimal().recrash(standard())), 1);
    assert_eq!(main(&standard().recrash(minimal())), 0);
    assert_eq!(main(&minimal().recrash(minimal().recrash(standard()))), 2);
    assert_eq!(main(&minimal().recrash(Report::empty())), 1);
}

#[test]
fn crash_time_values_go_before_the_base_sections() {
    let atcrash = |name: &str| format!("system_atcrash.{name}");
    for first in [true, false] {
        let base = Report::empty()
            .set("system.app_uuid", ID)
            .set("system.CFBundleExecutable", "Base")
            .set("system.cpu_arch", "arm64");
        let base = base.set("system.cpu_type", u64::from(ARM64.cpu_type));
        let mut report = base
            .set(&atcrash("app_uuid"), INNER)
            .set(&atcrash("CFBundleExecutable"), "Crash")
            .set(&atcrash("cpu_type"), u64::from(X86_64.cpu_type));
        if first {
            let system = report.json().clone().at("system").clone();
            report = report.without("system").set("system", system);
        } else {
            report = report.sorted();
        }
        report = report.set("system.process_name", "Base").set(&atcrash("process_name"), "Crash");
        let named = |report: &Report| {
            let bytes = report.bytes();
            let named = read(&bytes).parts[0].process_name.map(|name| name.decode().into_owned());
            named.unwrap_or_default()
        };
        assert_eq!(named(&report), "Crash");
        assert_eq!(named(&report.clone().set("report.process_name", "Reported")), "Reported");
        let bytes = report.bytes();
        let report = read(&bytes);
        let part = &report.parts[0];
        assert_eq!(part.app_uuid.unwrap().to_string(), INNER);
        assert!(part.executable.unwrap().is("Crash") && part.cpu_arch.unwrap().is("arm64"));
        assert_eq!(part.cpu.unwrap().name(), "x86_64");
    }
}

#[test]
fn every_shape_is_read() {
    for (name, report) in reports::shapes() {
        let bytes = report.bytes();
        let report = read(&bytes);
        let frames: usize = report.backtraces.iter().map(|b| b.frames.len()).sum();
        let without = ["error-MemoryTermination", "error-Termination", "custom", "memory-warning", "jetsam"];
        let empty = without.contains(&name.as_str());
        assert_eq!(frames == 0, empty, "{name}");
        let noted = report.warnings.iter().any(|w| w.to_string().contains("type") || w.part > 3);
        // Those that are meant to be wrong.
        let wrong = ["cut-off", "recrash-five-deep"].contains(&name.as_str());
        assert!(!noted || wrong, "{name}: {:?}", report.warnings);
    }
}
