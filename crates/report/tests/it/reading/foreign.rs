//! Logs in other formats than KSCrash's.

use unslide_report::{ForeignFormat, foreign_format};
use unslide_testkit::{fixtures, reports};

const IPS: &str = r#"{"app_name":"x{cte\"st","timestamp":"2022-04-20 14:36:33.00 +0100","bug_type":"309"}
{"uptime":1,"procName":"a"}"#;

#[test]
fn apple_logs_are_recognised_by_their_beginning() {
    for ips in [
        IPS,
        IPS.lines().next().unwrap(),
        "\u{FEFF}\n{\n  \"captureTime\" : \"2022-04-20\", \"threads\": [",
        r#"{"bug_type":"298","#,
    ] {
        assert_eq!(foreign_format(ips.as_bytes()), Some(ForeignFormat::AppleIps), "{ips}");
    }
    for text in [
        "Incident Identifier: 5C32DF84-31A0-43E7-87D0-239F7F594940\nCrashReporter Key:   TODO\n",
        "Process:               TableSearch [37083]\nPath: /a\n",
        "-------------------------------------\nTranslated Report (Full Report Below)\n",
        "\r\nHardware Model:      MacBookPro5,3\r\n",
    ] {
        assert_eq!(foreign_format(text.as_bytes()), Some(ForeignFormat::AppleCrash), "{text}");
    }
    assert_eq!(ForeignFormat::AppleIps.to_string(), "this is an Apple log (.ips), not KSCrash JSON");
}

#[test]
fn anything_else_is_not() {
    for (name, report) in reports::shapes() {
        assert_eq!(foreign_format(&report.bytes()), None, "{name}");
    }
    for other in
        ["", "{}", "[]", "[{\"bug_type\":\"309\"}]", "7", "{\"bug_type\":\"309\",\"crash\":{}}", "a log\n"]
    {
        assert_eq!(foreign_format(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn published_logs_are_recognised() {
    let test = "published logs are recognised";
    for (folder, expected) in [
        ("apple/ips", ForeignFormat::AppleIps),
        ("apple/jetsam", ForeignFormat::AppleIps),
        ("apple/crash-text", ForeignFormat::AppleCrash),
    ] {
        let Some(files) = fixtures::published(test, folder, "", 2) else { return };
        for file in files {
            // These begin without any field: a few threads alone, and the log of another crash reporter.
            if file.ends_with("acrp-spaces.txt") || file.ends_with("sym-umeng.crash") {
                continue;
            }
            let bytes = std::fs::read(&file).unwrap();
            // The text may stand behind the line of JSON with which an `.ips` file begins.
            let has_header = file.extension().is_some_and(|extension| extension == "ips");
            let expected = if has_header { ForeignFormat::AppleIps } else { expected };
            assert_eq!(foreign_format(&bytes), Some(expected), "{}", file.display());
        }
    }
}
