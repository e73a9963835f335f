//! From an address to an image, and what becomes of images.

use super::{APP, APP_PATH, BASE, Have, LIBRARY, TEXT, app, at, id, lines, symbols};
use crate::{Enrichment, ImageSymbols, ReportStatus, SymbolNeed, list_needs};
use serde_json::{Value, json};
use unslide_model::Quality;
use unslide_report::{ReadLimits, Report as Read};
use unslide_testkit::reports::{ARM64, ARM64E, Frame, Image, Json, Report, Thread, X86_64};

fn one(report: Report, frame: Frame) -> Value {
    let have = Have::app().and(LIBRARY, symbols(LIBRARY, ARM64, Quality::DwarfSymtab));
    have.frames(&report.thread(Thread::new(0).crashed().frames([frame])), 0).remove(0)
}

fn debug_id(frame: &Value) -> Option<String> {
    frame["debug_id"].as_str().map(str::to_uppercase)
}

#[test]
fn the_frames_own_debug_id_and_address_decide_where_images_overlap() {
    let outer = Image::new("/app/Outer", LIBRARY, BASE - 0x1000).size(0x10_0000);
    let report = || app().image(outer.clone());
    let address = BASE + at::INLINED;
    assert_eq!(debug_id(&one(report(), Frame::at(address))), Some(APP.into()));
    let own = Frame::at(address).uuid(LIBRARY).object("Outer", BASE - 0x1000);
    let frame = one(report(), own);
    assert_eq!((debug_id(&frame), frame.get("reattributed")), (Some(LIBRARY.into()), None));
    // The address alone of an image that contains it goes before the innermost, too.
    let by_start = one(report(), Frame::at(address).object("Outer", BASE - 0x1000));
    assert_eq!(debug_id(&by_start), Some(LIBRARY.into()));
    // Not where it is not listed so, or does not contain the address.
    let unlisted = one(report(), Frame::at(address).uuid(LIBRARY).object("Outer", BASE - 0x2000));
    assert_eq!((debug_id(&unlisted), &unlisted["reattributed"]), (Some(APP.into()), &json!(true)));
    let beyond = one(report(), Frame::at(BASE + 0xF_F800).uuid(LIBRARY).object("Outer", BASE - 0x1000));
    assert_eq!((debug_id(&beyond), &beyond["reattributed"]), (Some(APP.into()), &json!(true)));
}

#[test]
fn the_address_goes_before_what_the_frame_says() {
    let report = || app().image(Image::new("/usr/lib/libother.dylib", LIBRARY, 0x1_9000_0000));
    let address = BASE + at::INLINED;
    for frame in [
        Frame::at(address).object("libother.dylib", 0x1_9000_0000),
        Frame::at(address).set("object_name", "libother.dylib"),
        Frame::at(address).set("object_addr", 0x1_9000_0000_u64),
        Frame::at(address).uuid(LIBRARY),
    ] {
        let answer = one(report(), frame);
        assert_eq!((debug_id(&answer), &answer["reattributed"]), (Some(APP.into()), &json!(true)));
        assert_eq!(lines(&answer), [12, 40]);
    }
    for frame in [
        Frame::at(address).object("Shop", BASE),
        Frame::at(address).set("object_addr", 0_u64),
        Frame::at(address).set("object_name", Json::Raw("\"\\u0053hop\"".into())),
        Frame::at(address).uuid(&APP.replace('-', "").to_lowercase()),
    ] {
        assert_eq!(one(report(), frame).get("reattributed"), None);
    }
    // The original stays.
    let thread = Thread::new(0).crashed().frames([Frame::at(address).object("libother.dylib", 7)]);
    let tree = Have::app().tree(&report().thread(thread));
    assert_eq!(tree["crash"]["threads"][0]["backtrace"]["contents"][0]["object_name"], "libother.dylib");
}

#[test]
fn the_decremented_address_decides_at_the_border_of_two_images() {
    let next = Image::new("/app/Next", LIBRARY, BASE + 0x10_0000);
    let report = app().image(next);
    let border = BASE + 0x10_0000;
    let frames = report.thread(Thread::new(0).crashed().frames([Frame::at(border), Frame::at(border)]));
    let frames = Have::app().frames(&frames, 0);
    assert_eq!(debug_id(&frames[0]), Some(LIBRARY.into()));
    assert_eq!((debug_id(&frames[1]), &frames[1]["relative_address"]), (Some(APP.into()), &json!(0x10_0000)));
}

#[test]
fn an_address_beyond_every_image_is_unknown_whatever_the_frame_says() {
    let frame = one(app(), Frame::at(BASE + 0x10_0000).object("Shop", BASE).symbol("f", BASE).uuid(APP));
    assert_eq!(frame, json!({"status": "unknown_image"}));
}

#[test]
fn images_without_size_are_joined_by_the_frames_own_words() {
    let report = || Report::standard().image(Image::new("Shop", APP, BASE).size(0).without("image_vmaddr"));
    let address = BASE + at::INLINED;
    let by_uuid = Frame::at(address).object("Shop", BASE).uuid(APP);
    let by_start = Frame::at(address).object("Shop", BASE);
    for frame in [by_uuid, by_start] {
        assert_eq!(lines(&one(report(), frame)), [12, 40]);
    }
    for frame in [
        Frame::at(address),
        Frame::at(address).object("Shop", BASE + 0x1000),
        Frame::at(address).object("Shop", BASE).uuid(LIBRARY),
        Frame::at(BASE - 4).object("Shop", BASE).uuid(APP),
    ] {
        assert_eq!(one(report(), frame)["status"], "unknown_image");
    }
}

#[test]
fn without_an_image_list_the_executable_is_known_by_app_uuid() {
    let report = || Report::standard().without("binary_images").set("system.app_uuid", APP);
    let address = BASE + at::INLINED;
    let frame = one(report(), Frame::at(address).object("Shop", BASE));
    assert_eq!((lines(&frame), &frame["approximate"]), (vec![12, 40], &json!(true)));
    for frame in [
        Frame::at(address).object("UIKitCore", BASE),
        Frame::at(address).set("object_addr", BASE),
        Frame::at(address).set("object_name", "Shop"),
    ] {
        assert_eq!(one(report(), frame)["status"], "unknown_image");
    }
    let listed = Report::standard().set("system.app_uuid", APP).image(Image::new("/b", LIBRARY, 0x1000));
    assert_eq!(one(listed, Frame::at(address).object("Shop", BASE))["status"], "unknown_image");
    // The frame's own debug id needs no list and no guess.
    let own = one(report(), Frame::at(address).object("Lib", BASE).uuid(LIBRARY));
    assert_eq!((debug_id(&own), own.get("approximate")), (Some(LIBRARY.into()), None));
}

#[test]
fn the_images_of_another_part_serve_where_a_part_has_none() {
    let inner = Report::standard().without("binary_images").crashed_at([BASE + at::INLINED]);
    let tree = Have::app().tree(&app().recrash(inner));
    let frame = &tree["recrash_report"]["crash"]["threads"][0]["backtrace"]["contents"][0]["symbolication"];
    assert_eq!(lines(frame), [12, 40]);
}

fn enriched(have: &Have, report: Report) -> Enrichment {
    have.enrich(&report.crashed_at([BASE + at::INLINED]))
}

#[test]
fn each_way_to_have_no_symbols_is_told_apart() {
    let missing = [("missing", None), ("missing", Some(ImageSymbols::Missing))];
    let others = [
        ("malformed", Some(ImageSymbols::Malformed)),
        ("unsupported", Some(ImageSymbols::Unsupported)),
        ("fetching_failed", Some(ImageSymbols::FetchingFailed)),
        // The same debug id for another CPU, and other symbols than were asked for.
        ("malformed", Some(symbols(APP, X86_64, Quality::Dwarf))),
        ("malformed", Some(symbols(LIBRARY, ARM64, Quality::Dwarf))),
    ];
    for (status, symbols) in missing.into_iter().chain(others) {
        let have = symbols.map_or_else(Have::default, |symbols| Have::default().and(APP, symbols));
        let enriched = enriched(&have, app());
        let tree: Value = serde_json::from_slice(&enriched.bytes).unwrap();
        assert_eq!(tree["symbolication"]["images"][0]["status"], status);
        assert_eq!(tree["symbolication"]["frames"], json!({"total": 1, status: 1}));
        assert_eq!(enriched.missing, if status == "missing" { vec![id(APP)] } else { vec![] });
    }
}

/// A stripped binary was uploaded, or lies in the folder of symbols: its dSYM is lacking all the same.
#[test]
fn a_stripped_binary_of_the_app_does_not_replace_its_dsym() {
    let of = |have: &Have, report: &Report| {
        let enriched = have.enrich(report);
        let tree: Value = serde_json::from_slice(&enriched.bytes).unwrap();
        let image = &tree["symbolication"]["images"][0];
        assert_eq!(image["status"], "found");
        assert_eq!(enriched.images[0].lacks_symbols(), enriched.images[0].stripped);
        assert_eq!(image.get("stripped") == Some(&json!(true)), enriched.images[0].stripped);
        let is_stripped = enriched.images[0].stripped;
        assert_eq!(enriched.missing, if is_stripped { vec![id(APP)] } else { vec![] });
        // A name of a stripped binary leaves something to be wished for.
        assert!(!is_stripped || enriched.status != ReportStatus::Complete);
        is_stripped
    };
    let stripped = |quality| Have::default().and(APP, symbols(APP, ARM64, quality));
    let crash = |offset| app().crashed_at([BASE + offset]);
    let device = Thread::new(0).crashed().frames([Frame::at(BASE + 0x1050).symbol("f", BASE + 0x1000)]);
    assert!(of(&stripped(Quality::None), &crash(at::GAP)));
    assert!(of(&stripped(Quality::None), &app().thread(device)));
    assert!(of(&stripped(Quality::Exports), &crash(at::GAP)));
    assert!(of(&stripped(Quality::Exports), &crash(at::SYMBOL)), "what was inlined is unknown");
    assert!(!of(&stripped(Quality::Symtab), &crash(at::GAP)), "its symbol table names every function");
    assert!(!of(&Have::app(), &crash(at::GAP)), "nothing better can come");
    let system = Image::new("/usr/lib/libobjc.A.dylib", APP, BASE).vmaddr(TEXT);
    let system = Report::standard().image(system).crashed_at([BASE + at::GAP]);
    assert!(!of(&stripped(Quality::Exports), &system), "an operator uploads symbols of the system");
    // Outside of the image's size its dSYM would have to confirm what the frame says.
    let frame = Frame::at(BASE + at::GAP).object("Shop", BASE).set("object_uuid", APP);
    let small = Report::standard().image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x800));
    assert!(of(&stripped(Quality::Exports), &small.thread(Thread::new(0).crashed().frames([frame]))));
}

#[test]
fn subtypes_of_one_cpu_and_images_without_a_cpu_are_the_same() {
    for image in [
        Image::new(APP_PATH, APP, BASE).cpu(ARM64E),
        Image::new(APP_PATH, APP, BASE).set("cpu_type", 0_u64),
        Image::new(APP_PATH, APP, BASE).without("cpu_type"),
    ] {
        let enriched = enriched(&Have::app(), Report::standard().image(image));
        assert_eq!(enriched.frames.symbolicated, 1);
    }
}

#[test]
fn an_image_without_a_debug_id_is_missing_and_nobody_waits_for_it() {
    let image = Image::new(APP_PATH, APP, BASE).set("uuid", Json::null());
    let enriched = enriched(&Have::app(), Report::standard().image(image));
    assert_eq!((enriched.frames.missing, enriched.missing.len()), (1, 0));
    assert_eq!((enriched.images[0].debug_id, enriched.images[0].name.as_str()), (None, "Shop"));
}

#[test]
fn the_slide_is_signed_and_absent_where_nothing_tells() {
    let slide = |have: &Have, image: Image| {
        let enriched = enriched(have, Report::standard().image(image));
        (enriched.images[0].slide, enriched.images[0].vmaddr_differs)
    };
    let image = || Image::new(APP_PATH, APP, BASE);
    let have = Have::app();
    assert_eq!(slide(&have, image().vmaddr(0x1_0000_0000)), (Some(0x400_0000), false));
    assert_eq!(slide(&have, image().vmaddr(0x1_0800_0000)), (Some(-0x400_0000), true));
    assert_eq!(slide(&have, image().without("image_vmaddr")), (Some(0x400_0000), false));
    assert_eq!(slide(&Have::default(), image().without("image_vmaddr")), (None, false));
}

#[test]
fn needs_are_what_frames_refer_to_the_apps_own_first() {
    let third = "BBBBBBBB-2D2A-3A26-BF90-60D6A8896CF0";
    let report = app()
        .image(Image::new("/usr/lib/libobjc.A.dylib", LIBRARY, 0x1_9000_0000).cpu(ARM64E))
        .image(Image::new("/usr/lib/libunused.dylib", third, 0x1_A000_0000))
        .crashed_at([0x1_9000_1000, 0x1_9000_1000, BASE + 0x1000, BASE + 0x1004, 0x7000_0000]);
    let bytes = report.bytes();
    let read = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let need = |uuid: &str, cpu, system, name: &str| SymbolNeed {
        debug_id: id(uuid),
        cpu,
        system,
        name: name.into(),
    };
    assert_eq!(
        list_needs(&read),
        [need(APP, Some(ARM64), false, "Shop"), need(LIBRARY, Some(ARM64E), true, "libobjc.A.dylib")]
    );
}

#[test]
fn a_hundred_thousand_overlapping_images_and_frames_are_answered() {
    // Tens of thousands of images each, all over each other, named by every frame: were a look-up
    // linear, this would take minutes.
    let images = (0..30_000_u64).map(|i| Image::new("/i", APP, BASE - i).size(0x10_0000 + i));
    let frames = (0..30_000_u64).map(|i| Frame::at(BASE + 0x1000 + i).object("i", BASE - i).uuid(APP));
    let report = Report::standard().images(images).thread(Thread::new(0).crashed().frames(frames));
    assert_eq!(Have::default().enrich(&report).frames.missing, 30_000);
}
