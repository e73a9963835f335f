//! Names of functions: which of them count for a group, and names in any script.

use super::*;
use crate::explain_report;
use crate::grouping::{Grouping, GroupingRules, GroupingVerdict, regroup_report};
use crate::object::build_symcache;
use proptest::prelude::*;
use unslide_model::RelativeAddress;
use unslide_testkit::macho::{self, CODE, File};
use unslide_testkit::reports::{JOINTS, SCRIPTS};

const SYSTEM: u64 = 0x1_9000_0000;
const SYSTEM_PATH: &str = "/System/Library/Frameworks/SwiftUI.framework/SwiftUI";
/// Where the first function of [`named`] lies, and how long each of them is.
const FIRST: u64 = 0x1000;
const SIZE: u64 = 0x100;

/// A symcache with functions of these names, one behind the other.
fn named<S: AsRef<str>>(names: &[S]) -> Have {
    let mut w = Writer::new(1 << 20);
    let mut ranges = vec![(0, None)];
    for (start, name) in (FIRST..).step_by(SIZE as usize).zip(names) {
        let function = w.add_function(name.as_ref(), None).unwrap();
        let start = start as u32;
        let owner =
            CodeOwner { function, start: Some(start), source: NameSource::Symtab, approximate: false };
        let scope = w.add_scope(CodeScope::Owner(owner)).unwrap();
        ranges.push((start, Some(CodePlace { scope, line: 0, column: 0 })));
    }
    ranges.push(((FIRST + SIZE * names.len() as u64) as u32, None));
    let facts = ObjectHeader {
        debug_id: id(APP),
        cpu: ARM64,
        text_address: TEXT,
        text_size: 0x10_0000,
        extent: 0x10_0000,
        quality: Quality::Symtab,
    };
    let bytes = w.into_bytes(&facts, ranges.into_iter().collect()).unwrap();
    Have::default().and(APP, ImageSymbols::from_symcache(Arc::new(SymCache::parse(bytes).unwrap())))
}

/// A crash in the first of these functions, which the others have called.
fn crashed_in<S: AsRef<str>>(names: &[S]) -> Enrichment {
    let frames = (0..names.len() as u64).map(|n| BASE + FIRST + SIZE * n + 8);
    grouped_twice(&named(names), &app().crashed_at(frames))
}

/// A crash in functions of a system library that the device has named.
fn crashed_in_system<S: AsRef<str>>(names: &[S]) -> Made {
    let frames = (0..).step_by(0x100).zip(names).map(|(at, name)| {
        let start = SYSTEM + 0x1000 + at;
        Frame::at(start + 8).object("SwiftUI", SYSTEM).symbol(name.as_ref(), start)
    });
    app()
        .image(Image::new(SYSTEM_PATH, LIBRARY, SYSTEM).size(0x10_0000))
        .thread(Thread::new(0).crashed().frames(frames))
}

/// The answer for a report, which says enough to group it again.
fn grouped_twice(have: &Have, report: &Made) -> Enrichment {
    let enriched = have.enrich(report);
    let again = Report::read_stored(&enriched.bytes).unwrap();
    assert_eq!(regroup_report(&again, &GroupingRules::default()).unwrap(), enriched.grouping);
    enriched
}

fn culprit(enriched: &Enrichment) -> &str {
    enriched.grouping.as_ref().and_then(|grouping| grouping.culprit.as_deref()).unwrap_or_default()
}

/// Names of functions that compilers write, as symbol tables have them.
const COMPILER_MADE: [&str; 24] = [
    "OUTLINED_FUNCTION_0",
    "OUTLINED_FUNCTION_17",
    "$s4Shop4CartVWOhTm",
    "$s4Shop4CartVWOe",
    "$s4Shop4CartCMa",
    "$s4Shop4CartCMr",
    "$s4Shop4CartVwxx",
    "$s4Shop4CartVwst",
    "$s4Shop4CartVACSQAAWl",
    "objectdestroyTm",
    "objectdestroy.5Tm",
    "block_copy_helper",
    "block_destroy_helper.3",
    "__copy_helper_block_8_32s",
    "__destroy_helper_block_8_32s",
    "__Block_byref_object_copy_",
    "_GLOBAL__sub_I_cart.cpp",
    "__cxx_global_var_init.2",
    "__clang_call_terminate",
    "__destructor_8_s0",
    "_ZN4core3ptr31drop_in_place$LT$shop..Cart$GT$17h0123456789abcdefE",
    "__rust_dealloc",
    "type:.eq.main.Cart",
    "runtime.sigpanic",
];

#[test]
fn functions_that_a_compiler_writes_do_not_count() {
    let user = crashed_in(&["shop_checkout"]);
    let expected = user.grouping.as_ref().unwrap();
    for name in COMPILER_MADE {
        let enriched = crashed_in(&[name, "shop_checkout"]);
        let grouping = enriched.grouping.as_ref().unwrap();
        assert_eq!(grouping.fingerprint, expected.fingerprint, "{name}");
        assert_eq!((culprit(&enriched), grouping.title.as_str()), ("shop_checkout", expected.title.as_str()));
        // They are shown all the same.
        assert_eq!(enriched.frames.symbolicated, 2);
    }
    // Nor does one of them stand for the others where no other function is there.
    let alone = crashed_in(&COMPILER_MADE[..2]).grouping.unwrap();
    assert!(alone.culprit.is_none() && alone.frames.is_empty() && !alone.title.contains("OUTLINED"));
}

#[test]
fn an_explanation_says_that_a_compiler_wrote_the_function() {
    let have = named(&["$s4Shop4CartCMa", "shop_checkout"]);
    let bytes = app().crashed_at([BASE + FIRST, BASE + FIRST + SIZE + 8]).bytes();
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let explained = explain_report(&report, &|id| have.0.get(id), &GroupingRules::default(), &[]);
    let first = &explained.backtraces[0].frames[0].grouping[0];
    assert_eq!(first.function, "type metadata accessor for Shop.Cart");
    assert_eq!(first.verdict, GroupingVerdict::CompilerMade);
}

#[test]
fn thunks_count_as_the_function_that_they_carry() {
    for (symbol, expected) in [
        ("$s4Shop4CartV5totalyyFTm", "Shop.Cart.total"),
        ("$s4Shop4CartV5totalyyFTo", "Shop.Cart.total"),
        ("$s4Shop4CartVAA5TotalA2aDP5totalyyFTW", "Shop.Cart.total"),
        ("$s4Shop5PriceVSQAASQ2eeoiySbx_xtFZTW", "Shop.Price.=="),
        ("$s4Shop2eeoiySbAA4CartV_ADtF", "Shop.==(Shop.Cart, Shop.Cart)"),
        ("$s4Shop4CartV5totalyyFTj", "Shop.Cart.total"),
        ("$s4Shop4CartV5totalyyFyycfU_TA", "Shop.Cart.total"),
        ("$s4Shop4CartV2eeoiySbAC_ACtFZ", "Shop.Cart.=="),
        ("__20-[Cart total:]_block_invoke_3", "-[Cart total:]"),
        ("main.(*Cart).Total", "main.(*Cart).Total"),
        ("example.com/shop/cart.(*Cart).Refund.func1", "example.com/shop/cart.(*Cart).Refund"),
    ] {
        assert_eq!(culprit(&crashed_in(&[symbol, "shop_checkout"])), expected, "{symbol}");
    }
}

/// The name of a function without what its compiler adds.
fn normalised(name: &str) -> &str {
    let name = name.strip_prefix("objc2kotlin_").unwrap_or(name);
    let end = name.find("(){}").or_else(|| name.find("_m0A")).unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

#[test]
fn functions_that_raise_an_exception_in_another_language_are_not_the_culprit() {
    for (inner, expected) in [
        (
            &[
                "kfun:kotlin.Throwable#<init>(kotlin.String?){}",
                "kfun:kotlin.IllegalStateException#<init>(kotlin.String?){}",
            ][..],
            "kfun:shop.Basket#total(){}kotlin.Int",
        ),
        (&["ThrowException", "ThrowNullPointerException"], "kfun:shop.Order#<init>(){}"),
        (
            &[
                "_ZN12_GLOBAL__N_125processUnhandledExceptionEP9ObjHeader",
                "Kotlin_ObjCExport_trapOnUndeclaredException",
            ],
            "objc2kotlin_kfun:shop.Order#submit(){}",
        ),
        (&["il2cpp_codegen_raise_null_reference_exception", "NullCheck"], "Cart_Total_m0A1B2C3D4E5F"),
        (
            &["_ZN6il2cpp2vm9Exception5RaiseEP15Il2CppException", "ArgumentException__ctor_m0A1B2C3D"],
            "Cart_Sum_m0A1B2C3D4E5F",
        ),
        (&["Dart_ThrowException", "_TypeError._throwNew"], "Cart.total"),
        (&["luaD_throw", "luaG_typeerror", "luaV_execute", "lua_pcallk"], "shop_run_script"),
    ] {
        let stack: Vec<&str> = inner.iter().copied().chain([expected, "shop_checkout"]).collect();
        let enriched = crashed_in(&stack);
        let other: Vec<&str> = inner.iter().copied().chain(["shop_other", "shop_checkout"]).collect();
        assert_eq!(culprit(&enriched), normalised(expected), "{stack:?}");
        assert_ne!(crashed_in(&other).grouping.unwrap().fingerprint, enriched.grouping.unwrap().fingerprint);
    }
    // An engine counts if no function of the app is there, and a crash in another place of it is another group.
    let alone = crashed_in(&["_ZN4dart9Scavenger8ScavengeEv", "_ZN4dart4Heap14CollectGarbageEv"]);
    assert_eq!(culprit(&alone), "dart::Scavenger::Scavenge");
    let other = crashed_in(&["_ZN4dart9Scavenger5SweepEv", "_ZN4dart4Heap14CollectGarbageEv"]);
    assert_ne!(alone.grouping.unwrap().fingerprint, other.grouping.unwrap().fingerprint);
}

#[test]
fn compiler_made_names_from_a_device_are_guesses_and_do_not_count() {
    let names: Vec<&str> = COMPILER_MADE.into_iter().filter(|name| !name.starts_with("runtime.")).collect();
    let report = crashed_in_system(&names);
    let enriched = grouped_twice(&Have::default(), &report);
    let grouping = enriched.grouping.as_ref().unwrap();
    assert!(grouping.frames.is_empty() && grouping.culprit.is_none(), "{grouping:?}");
    for (frame, name) in Have::default().frames(&report, 0).iter().zip(&names) {
        assert_eq!((&frame["status"], &frame["approximate"]), (&"device".into(), &true.into()), "{name}");
    }
    let with_one = [&names[..3], &["-[UIView layout]"]].concat();
    let report = crashed_in_system(&with_one);
    assert_eq!(culprit(&grouped_twice(&Have::default(), &report)), "-[UIView layout]");
    assert!(Have::default().frames(&report, 0)[3].get("approximate").is_none());
}

#[test]
fn a_hidden_name_is_none_and_the_debug_id_and_the_address_stand_in() {
    let enriched = crashed_in(&["__hidden#1276_", "shop_checkout"]);
    let grouping = enriched.grouping.as_ref().unwrap();
    assert!(grouping.provisional && !grouping.title.contains("hidden#"), "{grouping:?}");
    assert_eq!(culprit(&enriched), "Shop + 0x1008");
    assert_eq!(grouping.frames[0].function, format!("{}+0x1008", APP.to_lowercase()));
    // Better symbols would name it.
    assert!(enriched.images[0].stripped);
    let device = crashed_in_system(&["__hidden#1276_"]);
    let grouping = grouped_twice(&Have::default(), &device).grouping.unwrap();
    assert!(grouping.frames.is_empty(), "{grouping:?}");
    assert_eq!(Have::default().frames(&device, 0)[0]["approximate"], true);

    let have = named(&["__hidden#1276_"]);
    let bytes = app().crashed_at([BASE + FIRST]).bytes();
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let explained = explain_report(&report, &|id| have.0.get(id), &GroupingRules::default(), &[]);
    let reason = &explained.backtraces[0].frames[0].reason;
    assert!(reason.contains("obfuscated") && reason.contains("dsymutil --symbol-map"), "{reason}");
}

fn any_name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => prop::sample::select(&SCRIPTS[..]).prop_map(str::to_owned),
        3 => prop::sample::select(&JOINTS[..]).prop_map(str::to_owned),
        1 => "\\PC{0,4}",
        1 => any::<char>().prop_map(String::from),
    ];
    let joined = prop::collection::vec(part, 1..12).prop_map(|parts| parts.concat());
    // Some of them are longer than a name may be.
    (joined, prop_oneof![9 => Just(1_usize), 1 => Just(60)]).prop_map(|(name, times)| name.repeat(times))
}

#[test]
fn names_in_other_scripts_are_whole_culprits() {
    for name in [
        "größe",
        "-[Kasse größe]",
        "naïve_total",
        "données_à_charger",
        "zähler_start",
        "合計",
        "καλάθι",
        "👜",
    ] {
        let enriched = crashed_in(&[name]);
        assert_eq!(culprit(&enriched), name);
        assert!(enriched.grouping.unwrap().title.ends_with(name));
    }
}

proptest! {
    #[test]
    fn names_in_any_script_are_answered_grouped_and_explained(
        names in prop::collection::vec(any_name(), 1..6),
        image in any_name(),
        reason in any_name(),
        exception in any_name(),
        raised: bool,
    ) {
        let error = |report: Made| {
            let report = report.set("crash.error.reason", reason.as_str());
            if raised {
                report.set("crash.error.type", "nsexception").set("crash.error.nsexception.name", exception.as_str())
            } else {
                report.set("crash.error.mach.exception_name", exception.as_str())
            }
        };
        let frames = (0..names.len() as u64).map(|n| BASE + FIRST + SIZE * n + 8);
        let path = format!("/private/var/containers/Bundle/Application/Shop.app/{image}");
        let of_app = Made::standard().image(Image::new(&path, APP, BASE).vmaddr(TEXT).size(0x10_0000));
        for (have, report) in [
            (named(&names), error(of_app.crashed_at(frames))),
            (Have::default(), error(crashed_in_system(&names))),
        ] {
            let enriched = grouped_twice(&have, &report);
            let Grouping { title, .. } = enriched.grouping.clone().unwrap();
            prop_assert!(title.chars().count() <= 200);
            let again = Report::read(&enriched.bytes, &ReadLimits::default()).unwrap();
            let _ = (again.summary(), unslide_report::text::apple_log(&again));
            let explained = explain_report(&again, &|id| have.0.get(id), &GroupingRules::default(), &[]);
            prop_assert_eq!(explained.backtraces[0].frames.len(), names.len());
        }
    }
}

/// The symcache of a file with these symbols and these sections of debug information.
fn built(symbols: Vec<(&str, u64)>, dwarf: Vec<(&'static str, Vec<u8>)>) -> (SymCache, Quality) {
    let built = build_symcache(&File { symbols, dwarf, ..File::default() }.bytes()).unwrap();
    (SymCache::parse(built.symcache).unwrap(), built.quality)
}

/// The name of the symbol at an address, with the names of its start.
fn symbol_at(symcache: &SymCache, address: u64) -> Option<Vec<String>> {
    let found = symcache.lookup(RelativeAddress(address - macho::TEXT)).into_answer()?;
    let names = found.symbol.into_iter().chain(found.folded_with());
    Some(names.map(|name| name.decode().into_owned()).collect())
}

#[test]
fn a_withheld_name_is_none_and_ends_the_function_before_it() {
    for withheld in ["<redacted>", "<deduplicated_symbol>", ""] {
        let at = |offset: u64| CODE + offset;
        let symbols = vec![
            ("_first", at(0)),
            (withheld, at(0x100)),
            ("_third", at(0x200)),
            (withheld, at(0x300)),
            ("_same", at(0x300)),
            // Labels lie inside of functions.
            ("ltmp4", at(0x340)),
            ("Lloop", at(0x350)),
            ("LBB0_1", at(0x360)),
            ("_last", at(0x400)),
        ];
        let (symcache, quality) = built(symbols, Vec::new());
        // Every symbol of the file is one that other images may call.
        assert_eq!(quality, Quality::Exports);
        for (offset, name) in [
            (0, Some("first")),
            (0xff, Some("first")),
            (0x100, None),
            (0x1ff, None),
            (0x200, Some("third")),
            (0x300, Some("same")),
            (0x370, Some("same")),
            (0x3ff, Some("same")),
            (0x400, Some("last")),
        ] {
            let expected = name.map(|name| vec![name.to_owned()]);
            assert_eq!(symbol_at(&symcache, at(offset)), expected, "{withheld} {offset:#x}");
        }
        // A table that names nothing is none.
        assert_eq!(built(vec![(withheld, CODE)], Vec::new()).1, Quality::None);
    }
    assert!(built(vec![("___hidden#1276_", CODE)], Vec::new()).1 < Quality::Symtab);
}

#[test]
fn a_withheld_name_in_debug_information_is_none() {
    let abbreviations = [&[1, 0x11, 1, 0, 0][..], &[2, 0x2E, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0, 0]];
    let function = |name: &[u8], start: u64| {
        [&[2][..], name, &[0], &start.to_le_bytes(), &16_u32.to_le_bytes()].concat()
    };
    let entries = [&[1][..], &function(b"<redacted>", CODE), &function(b"total", CODE + 16), &[0]].concat();
    let dwarf = vec![("__debug_info", macho::unit(&entries)), ("__debug_abbrev", abbreviations.concat())];
    let (symcache, _) = built(Vec::new(), dwarf);
    let name = |address: u64| {
        let found = symcache.lookup(RelativeAddress(address - macho::TEXT)).into_answer().unwrap();
        found.calls().next().unwrap().function.decode().into_owned()
    };
    assert_eq!((name(CODE + 4), name(CODE + 20)), (String::new(), "total".to_owned()));
}
