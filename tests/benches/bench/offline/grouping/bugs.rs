//! The bugs of the corpus and the ways to each.

/// A step of a backtrace, from the innermost on.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// The app, at a mark of `tests/grouping`; left out where a version has no such mark.
    App(u64),
    /// A function of the system, by image and name.
    System(&'static str, &'static str),
    /// Functions of the app, from the innermost on, and the function of `tests/grouping/system.c` that the first one
    /// calls. Calls that do not return have no place for a mark.
    Calls(&'static str, &'static [&'static str]),
    /// The address of the crash, in a function or in what the compiler has moved out of it.
    Within(&'static str),
}
use Step::{App, Calls, System, Within};

const KILL: Step = System("libsystem_kernel.dylib", "__pthread_kill");
const ABORT: Step = System("libsystem_c.dylib", "abort");
const QSORT: Step = System("libsystem_c.dylib", "_qsort");
const FORWARD: [Step; 3] = [
    System("CoreFoundation", "-[NSObject(NSObject) doesNotRecognizeSelector:]"),
    System("CoreFoundation", "___forwarding___"),
    System("CoreFoundation", "_CF_forwarding_prep_0"),
];
const THROW: [Step; 3] = [
    System("CoreFoundation", "__exceptionPreprocess"),
    System("libobjc.A.dylib", "objc_exception_throw"),
    System("CoreFoundation", "-[__NSArrayM objectAtIndexedSubscript:]"),
];
const UNCAUGHT: [Step; 6] = [
    KILL,
    ABORT,
    System("libc++abi.dylib", "_ZL28demangling_terminate_handlerv"),
    System("libobjc.A.dylib", "_ZL15_objc_terminatev"),
    System("libc++abi.dylib", "_ZSt11__terminatePFvvE"),
    System("libc++abi.dylib", "__cxa_throw"),
];
const BLOCK: [Step; 2] = [
    System("libdispatch.dylib", "_dispatch_call_block_and_release"),
    System("libdispatch.dylib", "_dispatch_client_callout"),
];

/// The bugs and the ways to each: with the same name they are one bug.
pub(super) fn bugs() -> Vec<(&'static str, Vec<Step>)> {
    let app = |marks: &[u64]| marks.iter().copied().map(App).collect::<Vec<_>>();
    let after = |system: &[Step], marks: &[u64]| [system.to_vec(), app(marks)].concat();
    let called_by =
        |mark: u64, system: &[Step], marks: &[u64]| [vec![App(mark)], system.to_vec(), app(marks)].concat();
    let mut bugs = vec![
        ("parse_price", app(&[10, 11, 12, 1])),
        ("parse_quantity", app(&[20, 21, 1])),
        ("by_price", called_by(30, &[QSORT], &[31, 1])),
        ("by_quantity", called_by(40, &[QSORT], &[41, 1])),
        ("refund asserts", after(&[KILL, ABORT], &[50, 52, 53, 1])),
        ("restock asserts", after(&[KILL, ABORT], &[50, 60, 61, 1])),
        ("decode_image", app(&[70, 90, 71, 1])),
        ("decode_image", app(&[70, 90, 72, 1])),
        ("checkout", app(&[80, 90, 81, 1])),
        ("Cart::sum", app(&[210, 211, 2])),
        ("Cart::sum", app(&[210, 212, 2])),
        ("discounts", app(&[220, 222, 223, 2])),
        ("vouchers", app(&[230, 222, 231, 2])),
        ("Button::draw", app(&[240, 241, 2])),
        ("Button::click", app(&[250, 251, 2])),
        ("first_title", app(&[110, 261, 262, 2])),
        ("last_badge", app(&[110, 271, 272, 2])),
        ("cancel_order", app(&[120, 281, 2])),
        ("repeat_order", app(&[120, 291, 2])),
        ("Money::rounded", app(&[140, 371, 2])),
        ("Money::rounded", app(&[140, 372, 2])),
        ("pick_size", after(&[KILL, ABORT], &[130, 301, 2])),
        ("pick_colour", after(&[KILL, ABORT], &[130, 311, 2])),
        ("Session::Session", app(&[320, 321, 2])),
        ("Session::~Session", app(&[330, 331, 2])),
        ("exchange_rate", app(&[340, 341, 342, 343, 2])),
        ("exchange_rate", app(&[340, 341, 342, 344, 2])),
        ("validate", app(&[350, 351, 2])),
        ("Address::validate", app(&[360, 361, 2])),
        ("totalWithTax", app(&[410, 3])),
        ("totalWithVoucher", app(&[420, 3])),
        ("load block", called_by(430, &BLOCK, &[])),
        ("fetch raises", after(&THROW, &[440, 3])),
        ("unknown method", after(&FORWARD, &[450, 3])),
        ("sum", app(&[460, 3])),
        ("Money + Money", app(&[510, 501])),
        ("Weight + Weight", app(&[511, 501])),
        ("Money < Money", app(&[512, 501])),
        ("Range < Range", app(&[513, 502])),
        ("Range < Range", app(&[513, 503])),
        ("swap of Money", app(&[514, 501])),
        ("swap of Weight", app(&[515, 501])),
        ("to_json of Money", app(&[516, 501])),
        ("to_json of Weight", app(&[517, 501])),
        ("ship_parcel", vec![Within("ship_parcel")]),
        ("return_parcel", vec![Within("return_parcel")]),
    ];
    // Each helper that a compiler has written, and each that raises an exception, has two callers.
    for (first, second, mark) in HELPERS {
        bugs.push((first, app(&[*mark, mark + 1, 690])));
        bugs.push((second, app(&[*mark, mark + 2, 690])));
    }
    bugs.extend(NAMES.iter().map(|(bug, mark)| (*bug, app(&[*mark, 690]))));
    for (reporter, end, callers) in REPORTERS {
        let system: &[Step] = if *end == "abort" { &[KILL, ABORT] } else { &UNCAUGHT };
        for calls in callers {
            bugs.push((calls[calls.len() - 1], [system, &[Calls(end, calls)]].concat()));
        }
        assert!(callers.iter().all(|calls| calls[0] == *reporter), "{reporter}");
    }
    bugs.extend(CULPRITS.iter().map(|(bug, end, calls)| {
        let system: &[Step] = if *end == "abort" { &[KILL, ABORT] } else { &UNCAUGHT };
        (*bug, [system, &[Calls(end, calls)]].concat())
    }));
    bugs
}

/// A bug of each caller of a helper, with the mark of the helper's fault.
const HELPERS: &[(&str, &str, u64)] = &[
    ("first of metadata accessor", "second of metadata accessor", 600),
    ("first of metadata completion", "second of metadata completion", 603),
    ("first of value witness", "second of value witness", 606),
    ("first of outlined destroy", "second of outlined destroy", 609),
    ("first of merged outlined destroy", "second of merged outlined destroy", 612),
    ("first of objectdestroy", "second of objectdestroy", 615),
    ("first of block copy helper", "second of block copy helper", 618),
    ("first of block destroy helper", "second of block destroy helper", 621),
    ("first of block variable copy", "second of block variable copy", 624),
    ("first of Kotlin's Throwable", "second of Kotlin's Throwable", 627),
    ("first of Kotlin's own exception", "second of Kotlin's own exception", 630),
    ("first of Kotlin's throw", "second of Kotlin's throw", 633),
    ("first of Kotlin's library", "second of Kotlin's library", 636),
    ("first of il2cpp's raise", "second of il2cpp's raise", 639),
    ("first of il2cpp's exception", "second of il2cpp's exception", 642),
    ("first of il2cpp's list", "second of il2cpp's list", 645),
    ("first of Dart's API", "second of Dart's API", 648),
    ("first of Dart's throw", "second of Dart's throw", 651),
    ("first of Lua's error", "second of Lua's error", 654),
    ("first of Lua's engine", "second of Lua's engine", 657),
    ("first of Mono's raise", "second of Mono's raise", 660),
];

/// Functions with names of Go and Swift and names that are not ASCII, with the marks of their faults.
const NAMES: &[(&str, u64)] = &[
    ("Go (*Cart).Total", 700),
    ("Go (*Order).Total", 701),
    ("Go Price.Total", 702),
    ("Swift Money + Money", 703),
    ("Swift Money - Money", 704),
    ("Swift Money == Money", 705),
    ("Swift Weight + Weight", 706),
    ("Swift global == of Money", 715),
    ("Swift global == of Weight", 716),
    ("Swift witness of Price ==", 717),
    ("Swift witness of Order ==", 718),
    ("Kotlin Basket()", 719),
    ("Kotlin Order()", 720),
    ("Kotlin Basket.count", 721),
    ("Kotlin Basket.total of a property", 722),
    ("Kotlin Basket.total", 723),
    ("Kotlin Order.submit", 724),
    ("il2cpp Cart.Total", 725),
    ("il2cpp Cart.Sum", 726),
    ("größe", 710),
    ("größer", 711),
    ("数量", 712),
    ("金額を計算する", 713),
    ("überprüfe_größe", 714),
];

/// A function that only reports, the function of the system that it calls, and a way to it for each of two bugs.
type Reporter = (&'static str, &'static str, [&'static [&'static str]; 2]);
const REPORTERS: &[Reporter] = &[
    ("check_failed", "abort", [&["check_failed", "buy_1"], &["check_failed", "sell_1"]]),
    ("raise_error", "__cxa_throw", [&["raise_error", "buy_2"], &["raise_error", "sell_2"]]),
    ("crash_now", "abort", [&["crash_now", "buy_3"], &["crash_now", "sell_3"]]),
    (
        "handle_assertion_failure",
        "abort",
        [&["handle_assertion_failure", "buy_4"], &["handle_assertion_failure", "sell_4"]],
    ),
    ("throw_exception", "__cxa_throw", [&["throw_exception", "buy_5"], &["throw_exception", "sell_5"]]),
    ("assertion_failed", "abort", [&["assertion_failed", "buy_6"], &["assertion_failed", "sell_6"]]),
    ("bail_out", "abort", [&["bail_out", "buy_7"], &["bail_out", "sell_7"]]),
    ("CHECK_fail", "abort", [&["CHECK_fail", "buy_8"], &["CHECK_fail", "sell_8"]]),
    ("fail_fast", "abort", [&["fail_fast", "buy_9"], &["fail_fast", "sell_9"]]),
    ("terminate_app", "abort", [&["terminate_app", "buy_10"], &["terminate_app", "sell_10"]]),
    ("verify_failed", "abort", [&["verify_failed", "buy_11"], &["verify_failed", "sell_11"]]),
    (
        "precondition_failed",
        "abort",
        [&["precondition_failed", "buy_12"], &["precondition_failed", "sell_12"]],
    ),
    ("die", "abort", [&["die", "buy_13"], &["die", "sell_13"]]),
    ("panic", "abort", [&["panic", "buy_14"], &["panic", "sell_14"]]),
    ("oom_abort", "abort", [&["oom_abort", "buy_15"], &["oom_abort", "sell_15"]]),
    ("helper", "abort", [&["helper", "buy_16"], &["helper", "sell_16"]]),
    ("throwOutOfRange", "__cxa_throw", [&["throwOutOfRange", "buy_17"], &["throwOutOfRange", "sell_17"]]),
    ("~CheckFailure", "abort", [&["~CheckFailure", "buy_18"], &["~CheckFailure", "sell_18"]]),
];

/// Functions that throw or abort and are to blame themselves, and some ways to each.
const CULPRITS: &[(&str, &str, &[&str])] = &[
    ("parse_header throws", "__cxa_throw", &["parse_header", "load_catalogue", "run_reporters"]),
    ("parse_header throws", "__cxa_throw", &["parse_header", "load_invoice", "run_reporters"]),
    ("parse_body throws", "__cxa_throw", &["parse_body", "load_catalogue", "run_reporters"]),
    ("validate_total aborts", "abort", &["validate_total", "check_out", "run_reporters"]),
    ("validate_total aborts", "abort", &["validate_total", "check_again", "run_reporters"]),
    ("raise_price aborts", "abort", &["raise_price", "check_out", "run_reporters"]),
    ("raise_price aborts", "abort", &["raise_price", "check_again", "run_reporters"]),
    ("find_order aborts", "abort", &["find_order", "check_out", "run_reporters"]),
    ("find_order aborts", "abort", &["find_order", "check_again", "run_reporters"]),
];
