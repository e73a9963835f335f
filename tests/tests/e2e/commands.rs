//! The commands of a build pipeline, and the embedded default over a restart.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, FUNCTIONS, list_functions};
use unslide_tests::binary;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};
use unslide_tests::topics::Topics;

#[tokio::test(flavor = "multi_thread")]
async fn a_build_pipeline_uploads_a_folder_and_gates_on_it() {
    let fixtures = unslide_testkit::fixtures::folder();
    let app = App::from_fixture("app");
    let installation = Installation::start().await;
    let id = app.debug_id.to_string();
    let (status, output, error) = installation.run_command(&["symbols", "check", &id]);
    assert_eq!(status, 3, "{output}{error}");
    assert!(output.contains("missing"), "{output}{error}");

    let folder = tempfile::tempdir().expect("a folder");
    let nested = folder.path().join("Build/Products/Release-iphoneos");
    copy(&fixtures.join("app.dSYM"), &nested.join("app.dSYM"));
    copy(&fixtures.join("kit.dSYM"), &nested.join("kit.dSYM"));
    let path = folder.path().to_str().expect("a path").to_owned();
    // A pipeline's key, as the documentation makes it.
    let pipeline =
        installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", "symbols:write"]);
    let pipeline = ["--api-key", pipeline.trim()];
    let doctor = [&["doctor", "--scope", "symbols:write"], &pipeline[..]].concat();
    let report = installation.command_succeeds(&doctor);
    for line in [
        "(from UNSLIDE_URL) answers: unslide ",
        "ok: the key (from --api-key) is in force: of the tenant acme\n",
        "ok: the clock of this machine is that of the API\n",
        "ok: Kafka at ",
        "it can upload symbols (symbols:write)\n",
        "it cannot send reports (reports:write)\n",
    ] {
        assert!(report.contains(line), "{line} is not in\n{report}");
    }
    assert!(!report.contains("warning"), "{report}");
    let (status, report, error) =
        installation.run_command(&[&doctor[..], &["--scope", "reports:read"]].concat());
    assert_eq!(status, 5, "{report}{error}");
    let advice = "missing: the key has not the scope reports:read. An administrator of acme makes one that has it: unslide key create \
                  --scope reports:read\n";
    assert!(report.contains(advice), "{report}");
    let dry = installation.command_succeeds(&[&["upload", "--dry-run", &path], &pipeline[..]].concat());
    assert!(dry.ends_with("2 would be uploaded, 0 known before, 0 failed\n"), "{dry}");
    let output = installation.command_succeeds(&[&["upload", "--json", &path], &pipeline[..]].concat());
    let uploaded: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!((&uploaded["uploaded"], &uploaded["failed"]), (&2.into(), &0.into()), "{output}");
    assert!(output.contains(&id), "{output}");
    // The folder names the app's and both of the kit's slices.
    let output =
        installation.command_succeeds(&[&["symbols", "check", "--wait", &path], &pipeline[..]].concat());
    assert!(output.contains(&id) && output.matches("ready").count() == 3, "{output}");
    // Again: nothing to do, and that is a success.
    let again = installation.command_succeeds(&[&["upload", &path], &pipeline[..]].concat());
    assert!(again.ends_with("0 uploaded, 2 known before, 0 failed\n"), "{again}");

    std::fs::write(nested.join("app.dSYM/Contents/Resources/DWARF/app"), &app.dsym[..app.dsym.len() / 2])
        .expect("written");
    let (status, output, error) = installation.run_command(&["upload", &path]);
    assert_ne!(status, 0, "a file that is cut in half is no success: {output}{error}");
    installation.stop().await;
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

struct Dev {
    child: Child,
    facts: serde_json::Value,
}

impl Dev {
    fn start(data: &std::path::Path) -> Dev {
        let data = data.to_str().expect("a path");
        let mut child =
            binary::build_command(&["dev", "--json", "--data-dir", data, "--listen", "127.0.0.1:0"])
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()
                .expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let facts = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        Dev { child, facts }
    }

    /// As a person starts it: gives the process and the last line of what it prints.
    fn start_for_a_person(data: &std::path::Path) -> (Dev, String) {
        let data = data.to_str().expect("a path");
        let mut child = binary::build_command(&["dev", "--data-dir", data, "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("starts");
        let printed = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut printed = printed.map(|line| line.expect("text"));
        let line = printed.find(|line| line.trim_start().starts_with("export ")).expect("an export");
        (Dev { child, facts: serde_json::Value::Null }, line)
    }

    fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap_or_else(|| panic!("no {name} in {}", self.facts))
    }

    fn stop(mut self) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM)
            .expect("sent");
        assert!(self.child.wait().expect("ends").success());
    }
}

/// The URL for apps that `unslide dev` prints accepts a report, and `unslide public-key test` says what became of it.
fn key_of_apps_works(dev: &Dev) {
    let test = |url: &str, app: &str| {
        let done = binary::build_command(&["public-key", "test", url, "--app", app])
            .env("UNSLIDE_API_KEY", dev.fact("api_key"))
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        (done.status.code(), said)
    };
    let url = dev.fact("app_url");
    let (status, said) = test(url, "com.example.shop");
    assert_eq!(status, Some(0), "{said}");
    let page = format!("{}/console/reports/", dev.fact("api_url"));
    assert!(
        said.contains("accepted: report ") && said.contains("stored: ") && said.contains(&page),
        "{said}"
    );
    let (status, said) = test(url, "org.example.shop");
    assert!(status == Some(1) && said.contains("com.example.*") && said.contains("wrong_app"), "{said}");
    let (status, said) = test(url.get(..url.len() - 1).expect("a key"), "com.example.shop");
    assert!(status == Some(5) && said.contains("unknown key"), "{said}");
    let (status, said) = test(dev.fact("api_url"), "com.example.shop");
    assert!(status == Some(2) && said.contains("/i/"), "{said}");
}

/// The commands of `docs/operations.md`, with what `unslide dev` prints and nothing else.
fn operators_commands_work(dev: &Dev) {
    let mode = std::fs::metadata(dev.fact("config")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let succeeds = |arguments: &[&str]| {
        let done = binary::build_command(arguments)
            .env("UNSLIDE_CONFIG", dev.fact("config"))
            .env("UNSLIDE_URL", dev.fact("api_url"))
            .env("UNSLIDE_API_KEY", dev.fact("api_key"))
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{arguments:?}: {said}");
        said
    };
    succeeds(&["config", "check"]);
    succeeds(&["health"]);
    succeeds(&["tenant", "create", "acme"]);
    succeeds(&["key", "create", "--tenant", "acme", "--scope", "symbols:write", "--expires", "90d"]);
    assert!(succeeds(&["key", "list", "--tenant", "acme"]).contains("symbols:write"));
    assert!(succeeds(&["tenant", "list"]).contains("acme"));
    assert!(succeeds(&["audit", "--from", "6h"]).contains("0 lost"));
    succeeds(&["dead-letter", "list", "--all"]);
    assert_eq!(succeeds(&["reprocess", "--app", "com.example.shop", "--dry-run"]), "0 reports fit\n");
    succeeds(&["migrate", "--topics"]);
    assert!(succeeds(&["tenant", "delete", "acme", "--yes"]).contains("deleted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_default_keeps_everything_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("its data");
    let app = App::from_fixture("app");
    let dev = tokio::task::block_in_place(|| Dev::start(&data));
    let client = Client::new(dev.fact("api_url"), dev.fact("api_key"));
    client.upload_symbols(app.dsym.clone()).await;
    let key = dev.fact("api_key").to_owned();
    tokio::task::block_in_place(|| operators_commands_work(&dev));
    let app_url = dev.fact("app_url").to_owned();
    tokio::task::block_in_place(|| dev.stop());

    let dev = tokio::task::block_in_place(|| Dev::start(&data));
    assert_eq!(dev.fact("api_key"), key);
    assert_eq!(dev.fact("app_url"), app_url);
    let topics = Topics::connect(dev.fact("kafka_bootstrap"));
    let report = app.build_report(7).bytes();
    topics.produce_record("crash.reports", None, &[("tenant", dev.fact("tenant"))], &report).await;
    let enriched =
        topics.wait_for("crash.symbolicated", EVENTUAL_TIMEOUT, |records| !records.is_empty()).await;
    assert_eq!(list_functions(&enriched[0].parse_json()), FUNCTIONS.map(<[_]>::to_vec));
    let client = Client::new(dev.fact("api_url"), dev.fact("api_key"));
    let path = "/v1/reports/00000000-0000-4000-8000-000000000007";
    client.wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    tokio::task::block_in_place(|| key_of_apps_works(&dev));
    tokio::task::block_in_place(|| dev.stop());

    let (dev, export) = tokio::task::block_in_place(|| Dev::start_for_a_person(&data));
    let [kafka, url, shell_key] = tokio::task::block_in_place(|| facts_of_a_shell(&export));
    assert_eq!(shell_key, key);
    let client = Client::new(&url, &shell_key);
    assert_eq!(client.get(path).await.0, 200, "reports outlive a restart");
    let topics = Topics::connect(&kafka);
    topics.wait_for("crash.symbolicated", EVENTUAL_TIMEOUT, |records| !records.is_empty()).await;
    tokio::task::block_in_place(|| dev.stop());
}

/// Kafka's address, the API's and a key, as a shell has them that took over the line that `unslide dev` prints. Commands
/// of operators and of tenants work in it.
fn facts_of_a_shell(export: &str) -> [String; 3] {
    let commands = r#""$0" tenant list >&2 && "$0" reports >&2"#;
    let script = format!(
        r#"{export}
        {commands} && printf '%s\n' "$KAFKA" "$UNSLIDE_URL" "$UNSLIDE_API_KEY""#
    );
    let done = Command::new("sh")
        .env_clear()
        .args(["-c", &script])
        .arg(binary::find_binary())
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains("dev"), "{export}: {said}");
    let text = String::from_utf8(done.stdout).expect("text");
    let facts: Vec<String> = text.lines().map(str::to_owned).collect();
    facts.try_into().unwrap_or_else(|facts| panic!("{facts:?}"))
}
