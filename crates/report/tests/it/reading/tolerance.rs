//! Wrong types, duplicate keys, and the spellings of numbers and UUIDs.

use crate::{read, reason, warnings};
use proptest::prelude::*;
use unslide_report::{BacktraceOrigin, Frame, Number, ReadLimits, Report as Read};
use unslide_testkit::reports::{self, ARM64E, Error, Image, Json, Report, Thread};

const ID: &str = "ec55b54f-1963-41ab-a65f-e0f98ef29dfb";

fn frame_text(members: &str) -> String {
    format!(r#"{{"crash":{{"threads":[{{"backtrace":{{"contents":[{{{members}}}]}}}}]}}}}"#)
}

/// The `instruction_addr` that is read for a number's spelling.
fn address(raw: &str) -> Option<Number> {
    let bytes = frame_text(&format!(r#""instruction_addr":{raw}"#));
    read(bytes.as_bytes()).backtraces[0].frames[0].instruction_addr
}

#[test]
fn integers_are_read_over_the_whole_64_bits() {
    for value in [
        0,
        1,
        9,
        4_295_086_420,
        i64::MAX as u64,
        1 << 63,
        9_999_999_999_999_999_999,
        10_000_000_000_000_000_000,
        u64::MAX,
    ] {
        assert_eq!(address(&value.to_string()), Some(Number::from_unsigned(value)));
        assert_eq!(Number::from_unsigned(value).to_bits(), Some(value));
    }
    let negative = |magnitude| Number::Int { magnitude, negative: true };
    assert_eq!(address("-1"), Some(negative(1)));
    assert_eq!(address("-0"), Some(negative(0)));
    assert_eq!(address("-9223372036854775808"), Some(negative(1 << 63)));
    assert_eq!(negative(1).to_bits(), Some(u64::MAX));
    assert_eq!(negative(0).to_bits(), Some(0));
    assert_eq!(negative(1 << 63).to_bits(), Some(1 << 63));
    assert_eq!(negative((1 << 63) + 1).to_bits(), None);
}

proptest! {
    #[test]
    fn integers_of_every_length_are_read_wherever_they_end(number: u64, digits in 1..=20_usize, tail in 0..12_usize) {
        let text: String = number.to_string().chars().take(digits).collect();
        let value: u64 = text.parse().unwrap();
        // Behind it the rest of the report, of any length.
        let bytes = format!(r#"{{"binary_images":[{{"image_addr":{text}}}]{}}}"#, " ".repeat(tail));
        prop_assert_eq!(read(bytes.as_bytes()).parts[0].images[0].addr, Some(Number::from_unsigned(value)));
        let bytes = format!(r#"{{"crash":{{}},"binary_images":[{{"image_addr":-{text}"#);
        let whole = format!("{bytes}}}]}}");
        let negative = Number::Int { magnitude: value, negative: true };
        prop_assert_eq!(read(whole.as_bytes()).parts[0].images[0].addr, Some(negative));
        prop_assert_eq!(crate::reason(bytes.as_bytes()), "truncated");
    }

    #[test]
    fn floats_are_read_as_the_standard_library_reads_them(number: f64) {
        prop_assume!(number.is_finite());
        for text in [format!("{number:e}"), format!("{number:?}"), format!("{number:.3}")] {
            let read = address(&text);
            match text.parse::<u64>() {
                Ok(integer) => prop_assert_eq!(read, Some(Number::from_unsigned(integer))),
                Err(_) if text.contains(['.', 'e']) => prop_assert_eq!(read, Some(Number::Float(text.parse().unwrap()))),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn other_numbers_are_floats() {
    assert_eq!(address("1.5"), Some(Number::Float(1.5)));
    assert_eq!(address("1e3"), Some(Number::Float(1000.0)));
    assert_eq!(address("18446744073709551616"), Some(Number::Float(18_446_744_073_709_551_616.0)));
    assert_eq!(address("1e999"), Some(Number::Float(f64::INFINITY)));
    let bits = |raw| address(raw).and_then(Number::to_bits);
    assert_eq!(bits("1.84467e+19"), Some(18_446_700_000_000_000_000));
    assert_eq!(bits("18446744073709551616"), Some(u64::MAX));
    assert_eq!(bits("4295086420.5"), Some(4_295_086_421));
    assert_eq!(bits("-1.0"), Some(u64::MAX));
    assert_eq!(bits("1.9e19"), None);
    assert_eq!(bits("1e999"), None);
    assert_eq!(bits("-1e999"), None);
    assert!(Number::Float(1.0).is_imprecise() && !Number::from_unsigned(1).is_imprecise());
}

#[test]
fn uuids_are_read_in_every_spelling() {
    let uuid = |text: &str| {
        let bytes =
            Report::standard().image(Image::new("a", "", 1).set("uuid", Json::Raw(text.into()))).bytes();
        let report = read(&bytes);
        (report.parts[0].images[0].uuid.map(|id| id.to_string()), report.warnings.len())
    };
    for text in [
        r#""EC55B54F-1963-41AB-A65F-E0F98EF29DFB""#,
        r#""ec55b54f-1963-41ab-a65f-e0f98ef29dfb""#,
        r#""EC55B54F196341ABA65FE0F98EF29DFB""#,
        r#""Ec55b54f-196341ABa65fe0f98ef29dfb""#,
        r#""EC55B54F\u002d1963-41AB-A65F-E0F98EF29DFB""#,
    ] {
        assert_eq!(uuid(text), (Some(ID.into()), 0), "{text}");
    }
    assert_eq!(uuid("null"), (None, 0));
    for text in [
        r#""""#,
        r#""EC55B54F""#,
        r#""GC55B54F-1963-41AB-A65F-E0F98EF29DFB""#,
        r#""EC55B54F-1963-41AB-A65F-E0F98EF29DF:""#,
        r#""EC55B54F-1963-41AB-A65F-E0F98EF29DF`""#,
        r#""EC55B54F-1963-41AB-A65F-E0F98EF29DF@""#,
        "7",
        "[]",
    ] {
        assert_eq!(uuid(text), (None, 1), "{text}");
    }
}

/// A report with a value in each member that is read.
fn full() -> Report {
    let frame = || reports::Frame::at(1).object("a", 2).symbol("b", 3).uuid(ID);
    let thread =
        |index| Thread::new(index).crashed().current().frames([frame()]).skipped(5).all_registers(ARM64E, 1);
    let single = Report::empty().set("crash.threads", Json::array([])).thread(thread(6));
    Report::standard()
        .profile_frames([frame()])
        .error(Error::Mach)
        .set("crash.error.profile.frames", Json::array([Json::object([("instruction_addr", Json::from(1))])]))
        .set("report.monitor_id", "Signal")
        .set("report.process_name", "Reported")
        .image(Image::new("/a", ID, 7).cpu(ARM64E))
        .thread(thread(4))
        .set("crash.crashed_thread", single.json().clone().at("crash.threads.0").clone())
        .last_exception([frame()])
        .deallocated_exception(9, [frame()])
        .set("system.app_uuid", ID)
        .set("system.binary_cpu_subtype", Json::from(2))
        .set("system_atcrash.proc_translated", true)
}

#[test]
fn every_member_is_read() {
    let bytes = full().bytes();
    let report = read(&bytes);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let part = &report.parts[0];
    let text = |text: Option<unslide_report::Text<'_>>| text.map(|text| text.decode().into_owned());
    assert_eq!(text(part.error_type).as_deref(), Some("mach"));
    assert_eq!(text(part.monitor_id).as_deref(), Some("Signal"));
    assert_eq!(text(part.report_type).as_deref(), Some("standard"));
    assert_eq!(part.report_id.unwrap().to_string(), ID);
    assert_eq!(part.app_uuid.unwrap().to_string(), ID);
    assert_eq!(text(part.executable).as_deref(), Some("Shop"));
    assert!(text(part.executable_path).unwrap().ends_with("Shop.app/Shop"));
    assert_eq!(text(part.process_name).as_deref(), Some("Reported"));
    assert_eq!(part.proc_translated, Some(true));
    assert_eq!(part.cpu, Some(ARM64E));
    assert_eq!(part.binary_cpu.unwrap().name(), "arm64e");
    assert_eq!(text(part.cpu_arch).as_deref(), Some("arm64e"));
    let image = part.images[0];
    assert_eq!((image.addr, image.vmaddr), (Some(Number::from_unsigned(7)), Some(Number::from_unsigned(0))));
    assert_eq!((image.size, image.uuid.unwrap().to_string().as_str()), (0x10_0000, ID));
    // Written with its capability bit.
    assert_eq!((text(image.name).as_deref(), image.cpu), (Some("/a"), Some(ARM64E)));
    assert_eq!(report.backtraces.len(), 5);
    let backtrace = report.backtraces.iter().find(|b| b.origin == BacktraceOrigin::Thread).unwrap();
    let thread = backtrace.thread.unwrap();
    assert_eq!(
        (thread.index, thread.position, thread.crashed, thread.current_thread),
        (Some(4), 0, true, true)
    );
    assert_eq!(
        (thread.pc, thread.has_registers, backtrace.skipped),
        (Some(Number::from_unsigned(1)), true, 5)
    );
    let Frame { instruction_addr, object_addr, symbol_addr, object_uuid, object_name, symbol_name, .. } =
        backtrace.frames[0].clone();
    assert_eq!(
        [instruction_addr, object_addr, symbol_addr],
        [1, 2, 3].map(|n| Some(Number::from_unsigned(n)))
    );
    assert_eq!(object_uuid.unwrap().to_string(), ID);
    assert_eq!((text(object_name).as_deref(), text(symbol_name).as_deref()), (Some("a"), Some("b")));
}

/// The paths of all that is read, and what warnings call them.
const FIELDS: &[(&str, &str)] = &[
    ("report", "report"),
    ("report.id", "report.id"),
    ("report.monitor_id", "report.monitor_id"),
    ("report.type", "report.type"),
    ("report.process_name", "report.process_name"),
    ("binary_images", "binary_images"),
    ("binary_images.0.image_addr", "binary_images[].image_addr"),
    ("binary_images.0.image_vmaddr", "binary_images[].image_vmaddr"),
    ("binary_images.0.image_size", "binary_images[].image_size"),
    ("binary_images.0.uuid", "binary_images[].uuid"),
    ("binary_images.0.name", "binary_images[].name"),
    ("binary_images.0.cpu_type", "binary_images[].cpu_type"),
    ("binary_images.0.cpu_subtype", "binary_images[].cpu_subtype"),
    ("process", "process"),
    ("system", "system"),
    ("system.app_uuid", "system.app_uuid"),
    ("system.CFBundleExecutable", "system.CFBundleExecutable"),
    ("system.CFBundleExecutablePath", "system.CFBundleExecutablePath"),
    ("system.process_name", "system.process_name"),
    ("system.cpu_arch", "system.cpu_arch"),
    ("system.proc_translated", "system.proc_translated"),
    ("system.cpu_type", "system.cpu_type"),
    ("system.binary_cpu_subtype", "system.binary_cpu_subtype"),
    ("crash", "crash"),
    ("crash.error", "crash.error"),
    ("crash.error.type", "crash.error.type"),
    ("crash.threads", "crash.threads"),
    ("crash.threads.0.crashed", "crash.threads[].crashed"),
    ("crash.threads.0.current_thread", "crash.threads[].current_thread"),
    ("crash.threads.0.index", "crash.threads[].index"),
    ("crash.threads.0.registers", "crash.threads[].registers"),
    ("crash.threads.0.registers.basic", "crash.threads[].registers.basic"),
    ("crash.threads.0.registers.basic.pc", "crash.threads[].registers.basic.pc"),
    ("crash.threads.0.backtrace", "crash.threads[].backtrace"),
    ("crash.threads.0.backtrace.contents", "crash.threads[].backtrace.contents"),
    ("crash.threads.0.backtrace.skipped", "crash.threads[].backtrace.skipped"),
    (
        "crash.threads.0.backtrace.contents.0.instruction_addr",
        "crash.threads[].backtrace.contents[].instruction_addr",
    ),
    ("system.cpu_subtype", "system.cpu_subtype"),
    ("system.binary_cpu_type", "system.binary_cpu_type"),
    ("system_atcrash", "system_atcrash"),
    ("system_atcrash.proc_translated", "system_atcrash.proc_translated"),
    ("process.last_dealloced_nsexception", "process.last_dealloced_nsexception"),
    ("process.last_dealloced_nsexception.backtrace", "process.last_dealloced_nsexception.backtrace"),
    (
        "process.last_dealloced_nsexception.backtrace.contents",
        "process.last_dealloced_nsexception.backtrace.contents",
    ),
    ("crash.error.profile", "crash.error.profile"),
    ("crash.error.profile.frames", "crash.error.profile.frames"),
    ("crash.crashed_thread", "crash.crashed_thread"),
    ("crash.crashed_thread.backtrace", "crash.crashed_thread.backtrace"),
    ("crash.crashed_thread.registers.basic", "crash.crashed_thread.registers.basic"),
    ("crash.crashed_thread.registers.basic.pc", "crash.crashed_thread.registers.basic.pc"),
    ("crash.last_exception_backtrace", "crash.last_exception_backtrace"),
    ("crash.last_exception_backtrace.contents", "crash.last_exception_backtrace.contents"),
    ("crash.threads.0.backtrace.contents.0.object_addr", "crash.threads[].backtrace.contents[].object_addr"),
    ("crash.threads.0.backtrace.contents.0.object_uuid", "crash.threads[].backtrace.contents[].object_uuid"),
    ("crash.threads.0.backtrace.contents.0.object_name", "crash.threads[].backtrace.contents[].object_name"),
    ("crash.threads.0.backtrace.contents.0.symbol_addr", "crash.threads[].backtrace.contents[].symbol_addr"),
    ("crash.threads.0.backtrace.contents.0.symbol_name", "crash.threads[].backtrace.contents[].symbol_name"),
    ("crash.error.profile.frames.0.instruction_addr", "crash.error.profile.frames[].instruction_addr"),
    (
        "crash.last_exception_backtrace.contents.0.symbol_addr",
        "crash.last_exception_backtrace.contents[].symbol_addr",
    ),
    (
        "crash.crashed_thread.backtrace.contents.0.symbol_addr",
        "crash.crashed_thread.backtrace.contents[].symbol_addr",
    ),
    (
        "process.last_dealloced_nsexception.backtrace.contents.0.symbol_addr",
        "process.last_dealloced_nsexception.backtrace.contents[].symbol_addr",
    ),
];

/// What is left of a report, without its input and its offsets.
fn shown(report: &unslide_report::Report<'_>) -> String {
    let parts: Vec<_> = report
        .parts
        .iter()
        .map(|p| {
            let texts = [
                p.error_type,
                p.monitor_id,
                p.report_type,
                p.executable,
                p.executable_path,
                p.process_name,
                p.cpu_arch,
            ];
            (&p.images, texts, p.app_uuid, p.proc_translated, p.cpu, p.binary_cpu)
        })
        .collect();
    let mut backtraces: Vec<_> = report
        .backtraces
        .iter()
        .map(|b| {
            let frames: Vec<_> = b
                .frames
                .iter()
                .map(|f| {
                    (
                        f.instruction_addr,
                        f.object_addr,
                        f.symbol_addr,
                        f.object_name,
                        f.symbol_name,
                        f.object_uuid,
                    )
                })
                .collect();
            format!("{} {:?} {:?} {} {frames:?}", b.part, b.origin, b.thread, b.skipped)
        })
        .collect();
    // The order is the document's, and the tests move sections about.
    backtraces.sort();
    format!("{} {parts:?} {backtraces:?}", report.id)
}

/// A value of another type than the member at `path` should have.
fn wrong(path: &str) -> Json {
    if path.ends_with("crashed") || path.ends_with("current_thread") || path.ends_with("proc_translated") {
        Json::from(7)
    } else {
        Json::from(true)
    }
}

/// True where the report has no id of its own without the member, so that its bytes give it one.
fn gives_the_id(path: &str) -> bool {
    path == "report" || path == "report.id"
}

#[test]
fn a_message_of_an_image_that_is_no_text_counts_as_absent() {
    for key in ["crash_info_message", "crash_info_message2"] {
        let report =
            |message: Json| Report::standard().image(Image::new("a", ID, 1).set(key, message)).bytes();
        let warning = format!("binary_images[].{key}: wrong type, counts as absent");
        assert_eq!(warnings(&report(Json::from(true))), [warning]);
        assert!(warnings(&report(Json::null())).is_empty());
    }
}

#[test]
fn a_wrong_type_counts_as_absent_and_is_named() {
    for &(path, name) in FIELDS {
        let other = full().set(path, wrong(path)).bytes();
        assert_eq!(warnings(&other), [format!("{name}: wrong type, counts as absent")], "{path}");
        // Null is no wrong type, and reads the same; so does a report without the member.
        let null = full().set(path, Json::null()).bytes();
        assert!(warnings(&null).is_empty(), "{path}");
        let none = full().without(path).bytes();
        if !gives_the_id(path) {
            assert_eq!(shown(&read(&other)), shown(&read(&none)), "{path}");
            assert_eq!(shown(&read(&null)), shown(&read(&none)), "{path}");
        }
        // Others go before these two.
        if !["system.process_name", "system.proc_translated"].contains(&path) {
            assert_ne!(shown(&read(&none)), shown(&read(&full().bytes())), "{path}");
        }
    }
}

#[test]
fn of_duplicate_keys_the_last_one_counts() {
    for &(path, name) in FIELDS {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        let value = full().json().clone().at(path).clone();
        let twice = full().set(path, wrong(path)).duplicate(parent, key, value).bytes();
        let duplicate = format!("{name}: duplicate key, the last one counts");
        assert!(warnings(&twice).contains(&duplicate), "{path}");
        assert_eq!(shown(&read(&twice)), shown(&read(&full().bytes())), "{path}");
        // Nothing is left of the first where the last is null or of the wrong type.
        for last in [Json::null(), wrong(path)] {
            let gone = full().duplicate(parent, key, last).bytes();
            assert!(warnings(&gone).contains(&duplicate), "{path}");
            if !gives_the_id(path) {
                assert_eq!(shown(&read(&gone)), shown(&read(&full().without(path).bytes())), "{path}");
            }
        }
    }
}

#[test]
fn what_is_no_object_is_left_alone_and_counted() {
    let other = |n: usize| {
        Json::array(["x".into(), Json::from(7), Json::null(), Json::array([])].into_iter().take(n))
    };
    let mut report = Report::standard().set("binary_images", other(4)).set("crash.threads", other(3));
    report = report.image(Image::new("/a", ID, 1)).thread(Thread::new(0).set("backtrace.contents", other(2)));
    report = report.set("crash.threads.3.backtrace.contents.2", Json::Object(Vec::new()));
    let bytes = report.bytes();
    let report = read(&bytes);
    assert_eq!((report.invalid.images, report.invalid.threads, report.invalid.frames), (4, 3, 2));
    assert_eq!(report.parts[0].images.len(), 1);
    // Positions are those of the arrays.
    assert_eq!(report.backtraces[0].thread.unwrap().position, 3);
    assert_eq!((report.backtraces[0].blank_frames[0].index(), report.backtraces[0].invalid), (2, 2));
    assert_eq!(
        warnings(&bytes),
        [
            "binary_images: not an object, left alone (4 times)",
            "crash.threads: not an object, left alone (3 times)",
            "crash.threads[].backtrace.contents: not an object, left alone (2 times)",
        ]
    );
}

#[test]
fn numbers_that_do_not_fit_are_of_the_wrong_type() {
    for (path, value) in [
        ("binary_images.0.image_size", "-1"),
        ("binary_images.0.image_size", "1.5"),
        ("binary_images.0.cpu_type", "4294967296"),
        ("binary_images.0.cpu_type", "-2147483649"),
        ("crash.threads.0.index", "9223372036854775808"),
        ("crash.threads.0.backtrace.skipped", "-1"),
    ] {
        let bytes = full().set(path, Json::Raw(value.into())).bytes();
        assert_eq!(warnings(&bytes).len(), 1, "{path} {value}");
    }
    let bytes = Report::standard().thread(Thread::new(0).frames([]).set("index", -3)).bytes();
    assert_eq!(read(&bytes).backtraces[0].thread.unwrap().index, Some(-3));
    // The header's fields are signed or not.
    let bytes = full().set("binary_images.0.cpu_subtype", Json::from(2_147_483_650_u64)).bytes();
    assert_eq!(read(&bytes).parts[0].images[0].cpu, Some(ARM64E));
}

#[test]
fn warnings_name_the_part() {
    let behind = Report::empty().recrash(Report::empty()).set("crash", 7).bytes();
    assert_eq!(warnings(&behind), ["crash: wrong type, counts as absent"]);
    let bytes = Report::empty().recrash(Report::empty().recrash(Report::empty().set("crash", 7))).bytes();
    assert_eq!(warnings(&bytes), ["recrash_report.recrash_report.crash: wrong type, counts as absent"]);
    let report = read(&bytes);
    assert_eq!((report.warnings[0].part, report.warnings[0].count), (2, 1));
    assert_eq!(bytes.get(report.warnings[0].offset), Some(&b'7'));
}

#[test]
fn a_uuid_of_zeros_is_none() {
    for zeros in ["00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000"] {
        let text = format!(
            r#"{{"system":{{"app_uuid":"{zeros}"}},"binary_images":[{{"image_addr":1,"uuid":"{zeros}"}}],
                "crash":{{"threads":[{{"backtrace":{{"contents":[{{"instruction_addr":1,"object_uuid":"{zeros}"}}]}}}}]}}}}"#
        );
        let report = read(text.as_bytes());
        assert_eq!((report.parts[0].app_uuid, report.parts[0].images[0].uuid), (None, None));
        assert_eq!(report.backtraces[0].frames[0].object_uuid, None);
        assert!(report.warnings.is_empty());
    }
}

#[test]
fn what_is_received_has_to_tell_of_a_crash() {
    let accept = |text: &str| {
        Read::read_event(text.as_bytes(), &ReadLimits::default())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    for good in [
        r#"{"crash":{"error":{}}}"#,
        r#"{"crash":{"threads":[]}}"#,
        r#"{"recrash_report":{}}"#,
        r#"{"crash":{"threads":[7],"error":7}}"#,
    ] {
        assert_eq!(accept(good), Ok(()), "{good}");
    }
    let rule =
        "a crash report has an object `crash` with `error` or `threads`, or an object `recrash_report`; ";
    let members = format!("{rule}this one has no such member");
    let neither = format!("{rule}the `crash` of this one has neither");
    for (bad, error) in [
        ("{}", &members),
        (r#"{"report":{"id":"a"},"system":{},"binary_images":[{}]}"#, &members),
        (r#"{"crash":[],"recrash_report":"x"}"#, &members),
        (r#"{"crash":{}}"#, &neither),
        (r#"{"crash":{"error":null,"threads":{},"crashed_thread":{}}}"#, &neither),
        (r#"{"crash":{"threads":[]},"crash":{}}"#, &neither),
    ] {
        assert_eq!(accept(bad).as_ref(), Err(error), "{bad}");
        let error = Read::read_event(bad.as_bytes(), &ReadLimits::default()).err();
        assert_eq!(error.map(|error| error.reason()), Some("not_a_report"));
        // What was stored before is still read.
        assert_eq!(reason(bad.as_bytes()), "none");
    }
    assert!(accept("17").is_err_and(|error| error.ends_with("a report is an object, this is a number")));
}
