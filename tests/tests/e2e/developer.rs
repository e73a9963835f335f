//! A developer's day on the command line: login, upload, send, and look at the answers.

use std::path::Path;
use std::process::{Output, Stdio};
use unslide_tests::app::App;
use unslide_tests::binary;
use unslide_tests::installation::{Installation, TENANT};

/// A user of this machine, whose settings are in a folder of their own and who sets no variables.
struct User<'i> {
    installation: &'i Installation,
    home: &'i Path,
}

impl User<'_> {
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = binary::build_command(arguments);
        command.env("XDG_CONFIG_HOME", self.home).stdin(Stdio::null());
        command.output().expect("starts")
    }

    /// Runs a command that has to succeed, and returns its standard output.
    fn succeed(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        let output = String::from_utf8_lossy(&done.stdout).into_owned();
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "unslide {arguments:?}: {output}{error}");
        output
    }

    fn succeed_json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.succeed(arguments);
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output}"))
    }

    fn log_in(&self, key: &str) {
        let file = self.home.join("key.txt");
        std::fs::write(&file, key).expect("a file");
        let mut command = binary::build_command(&["login", "--url", &self.installation.url]);
        let input = std::fs::File::open(&file).expect("a file");
        let done = command.env("XDG_CONFIG_HOME", self.home).stdin(input).output().expect("starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_developer_sends_a_report_and_finds_its_bug_by_commands_alone() {
    let app = App::from_fixture("app");
    let installation = Installation::start().await;
    let home = tempfile::tempdir().expect("a folder");
    let user = User { installation: &installation, home: home.path() };
    let scopes = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin";
    let key = installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", scopes]);
    tokio::task::block_in_place(|| {
        user.log_in(&key);
        let doctor = user.succeed(&["doctor", "--scope", "tenant:admin"]);
        assert!(doctor.contains("(from the profile default)"), "{doctor}");

        let file = |name: &str, bytes: &[u8]| {
            let path = home.path().join(name);
            std::fs::write(&path, bytes).expect("a file");
            path.to_str().expect("a path").to_owned()
        };
        let report = file("report.json", &app.build_report(7).bytes());
        let id = "00000000-0000-4000-8000-000000000007";
        assert_eq!(user.succeed(&["send", &report]).trim(), id);
        let sent = user.succeed_json(&["send", "--wait", "--json", &report]);
        assert_eq!(
            (&sent[0]["id"], &sent[0]["stored"]["missing"][0]),
            (&id.into(), &app.debug_id.to_string().into())
        );

        // Its dSYM is missing, and then is not.
        let debug_id = app.debug_id.to_string();
        let missing = user.succeed(&["symbols", "missing", "--app", app.bundle]);
        assert!(missing.contains(&debug_id), "{missing}");
        let dsym = file("Shop", &app.dsym);
        user.succeed(&["upload", "--quiet", &dsym]);
        assert!(user.succeed(&["symbols", "list", "--debug-id", &debug_id]).contains("ready"), "no symbols");
        let group = find_group(&user, id);

        let log = user.succeed(&["reports", "show", id]);
        assert!(log.contains("leaf_crash"), "{log}");
        let enriched = user.succeed_json(&["reports", "show", "--json", id]);
        assert_eq!(enriched["symbolication"]["revision"], 2);
        let listed = user.succeed_json(&["reports", "list", "--json", "--app", app.bundle, "--from", "1h"]);
        assert_eq!(listed[0]["id"], id);
        assert_eq!(user.succeed_json(&["reports", "--json", "--to", "1h"]).as_array().map(Vec::len), Some(0));
        let shown = user.succeed(&["groups", "show", &group]);
        assert!(shown.contains("leaf_crash") && shown.contains(&format!("newest report {id}")), "{shown}");
        assert!(user.succeed(&["groups", "resolve", &group]).contains("resolved  1 report "));
        assert!(user.succeed(&["groups", "list", "--status", "resolved"]).contains(&group));
        let found = user.succeed_json(&["search", "--json", "leaf_crash"]);
        assert_eq!(
            (&found["items"][0]["kind"], &found["items"][0]["id"]),
            (&"group".into(), &group.as_str().into())
        );
        assert!(user.succeed(&["search", id]).contains("report"));
        assert!(user.succeed(&["settings", "person-search", "on"]).ends_with("is on\n"));

        settings_change_and_are_shown(&user, app.bundle);
        assert!(user.succeed(&["events"]).contains("reports_stored"));
        let events = user.succeed(&["events", "--json", "--app", app.bundle]);
        let event: serde_json::Value =
            serde_json::from_str(events.lines().next().expect("an event")).expect("JSON");
        assert!(event["id"].is_string() && event["data"].is_object(), "{event}");
        assert_eq!(user.succeed_json(&["alerts", "list", "--json"]).as_array().map(Vec::len), Some(0));

        let refused = user.run(&["symbols", "delete", &debug_id]);
        assert_eq!(refused.status.code(), Some(2), "without a terminal and --yes nothing is deleted");
        user.succeed(&["symbols", "delete", &debug_id, "--yes"]);
        assert_eq!(user.run(&["symbols", "check", &debug_id]).status.code(), Some(3));
        assert_eq!(
            user.run(&["reports", "show", "11111111-0000-4000-8000-000000000007"]).status.code(),
            Some(3)
        );
    });
    installation.stop().await;
}

/// Waits until the report was answered again with the dSYM, and returns the id of its group.
fn find_group(user: &User<'_>, id: &str) -> String {
    for _ in 0..3_000 {
        let listed = user.succeed_json(&["reports", "--json"]);
        let report = listed.as_array().expect("a list").iter().find(|report| report["id"] == id);
        if let Some(report) = report.filter(|report| report["revision"] == 2) {
            return report["group"].as_str().expect("a group").to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the report was not answered again")
}

fn settings_change_and_are_shown(user: &User<'_>, bundle: &str) {
    let url = "https://git.example.com/{path}#L{line}";
    user.succeed(&["settings", "set", "--app", bundle, "--source-url", url]);
    let set = user.succeed_json(&["settings", "set", "--app", bundle, "--drop", "hangs", "--json"]);
    assert_eq!((&set[0]["source_url"], &set[0]["signals"]["hangs"]), (&url.into(), &false.into()));
    let shown = user.succeed(&["settings", "show"]);
    assert!(shown.contains("hangs") && shown.contains(url), "{shown}");
    assert_eq!(user.succeed(&["fault-analysis"]), "fault analysis is on, values of variables are off\n");
    assert_eq!(
        user.succeed(&["fault-analysis", "off"]),
        "fault analysis is off, values of variables are off\n"
    );
    assert_eq!(user.run(&["settings", "set", "--app", bundle]).status.code(), Some(2));
}
