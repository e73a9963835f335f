use crate::{CorpseFact, CorpseValue, ReadLimits, Report, ReportContext};

fn read_context(json: &str) -> ReportContext {
    Report::read(json.as_bytes(), &ReadLimits::default()).unwrap().read_context()
}

const CRASH: &str = r#""crash":{"error":{"type":"mach"}}"#;

#[test]
fn keys_keep_their_order_and_the_last_of_two_counts() {
    let context = read_context(&format!(
        r#"{{{CRASH},"user":{{"plan":"free","cart":{{"items":3}},"beta":true,"gone":null,"plan":"pro\nmax",
            "stack_oom":[]}},"user_atcrash":{{"beta":false}}}}"#
    ));
    let keys: Vec<_> = context.keys.iter().map(|key| (key.name.as_str(), key.value.as_str())).collect();
    assert_eq!(keys, [("beta", "false"), ("plan", "pro\\nmax"), ("cart", r#"{"items":3}"#)]);
    assert!(!context.truncated);
}

#[test]
fn breadcrumbs_are_texts_or_objects() {
    let context = read_context(&format!(
        r#"{{{CRASH},"user":{{"breadcrumbs":["opened cart",
            {{"timestamp":1700000000.5,"category":"http","level":"warning","message":"GET /cart 503"}},
            {{"screen":"pay"}}]}}}}"#
    ));
    let crumbs = &context.breadcrumbs;
    assert_eq!(crumbs[0].text, "opened cart");
    assert_eq!((crumbs[1].kind.as_str(), crumbs[1].level.as_str()), ("http", "warning"));
    assert_eq!(crumbs[1].at.unwrap().unix_timestamp(), 1_700_000_000);
    assert_eq!(crumbs[2].text, r#"{"screen":"pay"}"#);
    assert!(context.keys.is_empty());
}

#[test]
fn the_log_has_its_newest_lines() {
    let lines = vec![r#""a line\nand another""#; 400].join(",");
    let context = read_context(&format!(r#"{{{CRASH},"debug":{{"console_log":[{lines},"the\tlast"]}}}}"#));
    assert_eq!(context.log.len(), 500);
    assert_eq!(context.log.last().unwrap(), "the    last");
    assert_eq!(context.log[498], "and another");
    assert!(context.truncated);
    let one = read_context(&format!(r#"{{{CRASH},"debug":{{"console_log":"one\r\ntwo\n"}}}}"#));
    assert_eq!(one.log, ["one", "two"]);
}

#[test]
fn the_state_is_that_of_all_versions() {
    let old = read_context(&format!(
        r#"{{"report":{{"timestamp":"2026-11-20T08:00:10Z"}},{CRASH},"system":{{"app_start_time":"2026-11-20T08:00:00Z",
            "jailbroken":true,"freeStorage":52428800,"memory":{{"size":4294967296,"free":104857600}},
            "app_memory":{{"memory_pressure":"critical","app_transition_state":"active"}},
            "application_stats":{{"application_in_foreground":false,"launches_since_last_crash":3,
                "active_time_since_launch":8.25}}}}}}"#
    ));
    let (app, device) = (&old.app, &old.device);
    assert_eq!((app.foreground, app.transition.as_deref()), (Some(false), Some("active")));
    assert_eq!(
        (app.since_launch_ms, app.active_ms, app.launches_since_crash),
        (Some(10_000), Some(8_250), Some(3))
    );
    assert_eq!((device.jailbroken, device.storage_free), (Some(true), Some(52_428_800)));
    assert_eq!(device.is_low_on_memory(), Some(true));
    let new = read_context(&format!(
        r#"{{{CRASH},"system":{{"battery_level":7,"battery_state":1,"low_power_mode_enabled":true,"thermal_state":2,
            "application_stats":{{"app_transition_state":"background"}}}}}}"#
    ));
    assert_eq!((new.device.battery_percent, new.device.charging), (Some(7), Some(false)));
    assert_eq!((new.device.low_power, new.device.thermal), (Some(true), Some("serious")));
    assert_eq!(new.app.transition.as_deref(), Some("background"));
}

#[test]
fn wrong_types_and_large_texts_do_no_harm() {
    let long = "x".repeat(300_000);
    let many: Vec<String> = (0..300).map(|n| format!(r#""key{n}":"{}""#, "y".repeat(3_000))).collect();
    let context = read_context(&format!(
        r#"{{{CRASH},"user":{{"long":"{long}",{}}},"debug":{{"console_log":[1,{{}},["a"],null,"{long}"]}},
            "system":{{"battery_level":900,"thermal_state":-1,"time_zone":7,"app_start_time":[],"memory":[]}}}}"#,
        many.join(",")
    ));
    assert!(context.truncated);
    assert_eq!(context.keys.len(), 200);
    assert_eq!(context.keys[0].value, "(300002 bytes)");
    let bytes: usize = context.keys.iter().map(|key| key.value.len()).sum::<usize>()
        + context.log.iter().map(String::len).sum::<usize>();
    assert!(bytes <= 512 << 10, "{bytes}");
    assert_eq!((context.device.battery_percent, context.device.thermal), (None, None));
    let none = read_context(r#"{"user":[1],"debug":7,"system":"x","crash":null}"#);
    assert_eq!(none, ReportContext::default());
}

/// Returns the keys by which a report is filtered and counted, as `name=value`.
fn list_scalars(sections: &str) -> Vec<String> {
    let json = format!("{{{CRASH},{sections}}}");
    let (_, _, keys) = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap().read_state();
    keys.into_iter().map(|key| format!("{}={}", key.name, key.value)).collect()
}

#[test]
fn strings_numbers_and_booleans_of_user_are_filtered_by() {
    let user = r#""user":{"plan":"free","beta":true,"tries":3,"share":0.50,"shift":-2,"whole":7.0,"none":null,"list":[1],
        "flags":{"checkout":"b","deep":{"x":1}},"plan":"pro\u0000","a.b":1,"a":{"b":2},"breadcrumbs":"x"}"#;
    let keys = list_scalars(&format!(r#"{user},"user_atcrash":{{"beta":false}}"#));
    let expected = [
        "beta=false",
        r"plan=pro\u{0}",
        "tries=3",
        "share=0.5",
        "shift=-2",
        "whole=7",
        "flags.checkout=b",
        "a.b=2",
    ];
    assert_eq!(keys, expected);
    assert_eq!(list_scalars(r#""recrash_report":{"user":{"plan":"free"}}"#), ["plan=free"]);
    assert!(list_scalars(r#""user":"u""#).is_empty());
}

#[test]
fn ids_of_users_are_not_filtered_by() {
    let user =
        r#""user":{"id":"u-17","User-Name":"u","account":{"email":"a@example.com","tier":1},"plan":"free"}"#;
    assert_eq!(list_scalars(user), ["account.tier=1", "plan=free"]);
}

#[test]
fn keys_for_filters_are_bounded_in_number_and_bytes() {
    let many: Vec<String> = (0..=50).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let keys = list_scalars(&format!(r#""user":{{{},"k0":"again"}}"#, many.join(",")));
    assert_eq!((keys.len(), keys[0].as_str(), keys[49].as_str()), (50, "k0=again", "k49=49"));
    let (name, value) = ("n".repeat(64), "é".repeat(64));
    assert_eq!(list_scalars(&format!(r#""user":{{"{name}":"{value}"}}"#)), [format!("{name}={value}")]);
    for over in [
        format!(r#"{{"{name}n":1}}"#),
        format!(r#"{{"{name}":{{"n":1}}}}"#),
        format!(r#"{{"n":"{value}x"}}"#),
        r#"{"n":1e300}"#.to_owned(),
        r#"{"n":""}"#.to_owned(),
        r#"{"":1}"#.to_owned(),
    ] {
        assert!(list_scalars(&format!(r#""user":{over}"#)).is_empty(), "{over}");
    }
    let escaped = r"\u0041".repeat(128);
    assert_eq!(list_scalars(&format!(r#""user":{{"n":"{escaped}"}}"#)), [format!("n={}", "A".repeat(128))]);
}

/// A snapshot as KSCrash's extension writes it, and one whose members have other types.
#[test]
fn the_facts_of_an_ended_process_are_named_and_bounded() {
    let notes = vec![r#""VM - out of memory\u001b""#; 30].join(",");
    let snapshot = format!(
        r#"{{"taskRole":"BACKGROUND_APPLICATION","images":[{{"path":"/a","size":9}}],"kernelTriage":[7,{notes}],
            "crashInfo":{{"exitReasonDescription":"over the limit","crashedThreadID":77,"memoryLimitMB":2,"exceptionCode":1}},
            "rusage":{{"physFootprint":2000000,"userTime":4}},"vmInfo":{{"limitBytesRemaining":-1,"regionCount":12}},
            "codeSigning":{{"teamID":"","signingID":[1]}}}}"#
    );
    for json in [
        format!(r#"{{{CRASH},"corpse":{snapshot}}}"#),
        format!(
            r#"{{"crash":{{"error":{{"type":"mach","monitor_data":{{"Corpse":{{"snapshot":{snapshot}}}}}}}}}}}"#
        ),
    ] {
        let context = read_context(&json);
        let number = |name, value| CorpseFact { name, value: CorpseValue::Number(value) };
        let bytes = |name, value| CorpseFact { name, value: CorpseValue::Bytes(value) };
        let text = |name, value: &str| CorpseFact { name, value: CorpseValue::Text(value.to_owned()) };
        let expected = [
            text("Exit reason", "over the limit"),
            text("Role", "BACKGROUND_APPLICATION"),
            number("Kernel's id of the crashed thread", 77),
            bytes("Memory", 2_000_000),
            bytes("Memory limit", 2 << 20),
            number("Regions of memory", 12),
            text("Note of the kernel", r"VM - out of memory\u{1b}"),
        ];
        assert_eq!(context.corpse[..expected.len()], expected);
        assert_eq!(
            (context.corpse.len(), context.truncated),
            (6 + 19, true),
            "a note that is no text counts"
        );
        assert_eq!((context.device.footprint, context.device.memory_limit), (Some(2_000_000), None));
        assert_eq!(context.app.foreground, Some(false));
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        let log = crate::text::apple_log(&report);
        assert!(log.contains("\nEnded Process:\nExit reason: over the limit\n"), "{log}");
    }
    for odd in [
        "[]",
        "7",
        r#"{"rusage":[],"crashInfo":7,"kernelTriage":{},"taskRole":1,"vmInfo":{"regionCount":-2}}"#,
    ] {
        assert!(read_context(&format!(r#"{{{CRASH},"corpse":{odd}}}"#)).corpse.is_empty(), "{odd}");
    }
}
