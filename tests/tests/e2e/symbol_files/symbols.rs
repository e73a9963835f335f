//! What `unslide symbols check` and the api say of symbols, good and bad, and what an upload costs the api.

use std::path::Path;
use std::process::Command;
use unslide_testkit::fixtures;
use unslide_testkit::macho::{CODE, File};
use unslide_tests::app::App;
use unslide_tests::installation::Installation;

/// The debug id of every file made by hand.
const HAND_MADE: [u8; 16] = [7; 16];

/// The same file with another debug id.
fn with_id(mut bytes: Vec<u8>, byte: u8) -> (Vec<u8>, String) {
    let at = bytes.windows(16).position(|bytes| bytes == HAND_MADE).expect("its debug id");
    bytes[at..at + 16].fill(byte);
    let digits = format!("{byte:02x}");
    (bytes, [4, 2, 2, 2, 6].map(|count| digits.repeat(count)).join("-"))
}

/// Exit code and output of `unslide symbols check`.
fn check(installation: &Installation, targets: &[&str]) -> (i32, String) {
    let (status, output, error) = installation.run_command(&[&["symbols", "check"], targets].concat());
    assert!(error.is_empty() || status != 0, "{error}");
    (status, output + &error)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_takes_reports_and_binaries_and_names_what_is_wrong() {
    let app = App::from_fixture("app");
    let id = app.debug_id.to_string();
    let installation = Installation::start().await;
    let client = installation.client();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };

    // A report stands for the app's images that its frames refer to, a program for itself.
    let report = write("report.json", &app.build_report(1).bytes());
    let program = fixtures::binary("app");
    let line = |status: &str, name: &str| {
        let width = status.len().max("STATUS".len());
        format!("{:36}  {:width$}  NAME\n{id}  {status:width$}  {name}\n", "DEBUG ID", "STATUS")
    };
    assert_eq!(check(&installation, &[text(&report)]), (3, line("missing", "Shop")));
    assert_eq!(check(&installation, &[text(&program)]), (3, line("missing", "app")));
    assert_eq!(client.upload_symbols(app.dsym.clone()).await["objects"][0]["status"], "ready");
    assert_eq!(check(&installation, &[text(&report)]), (0, line("ready", "Shop")));
    assert_eq!(check(&installation, &[text(&program)]), (0, line("ready", "app")));
    let (status, said) = check(&installation, &[text(&write("notes.txt", b"notes"))]);
    assert!(
        status == 1 && said.contains("neither a Mach-O file, an archive of them, nor a report"),
        "{said}"
    );
    let system = write("system.json", &app.system_report(2).bytes());
    let (status, said) = check(&installation, &[text(&system)]);
    assert!(status == 3 && said.contains("no debug id"), "{said}");

    // What cannot be built says so, and one of them is enough for a failure.
    let damaged = File { dwarf: vec![("__debug_info", vec![0xEE; 64])], ..File::default() };
    let (damaged, malformed) = with_id(damaged.bytes(), 8);
    let unlinked = File { symbols: vec![("_f", CODE)], kind: Some(1), ..File::default() };
    let (unlinked, unsupported) = with_id(unlinked.bytes(), 9);
    for (bytes, status) in [(damaged, "malformed"), (unlinked, "unsupported")] {
        let object = client.upload_symbols(bytes).await["objects"][0].take();
        assert_eq!(object["status"], status, "{object}");
        assert!(object["reason"].as_str().is_some_and(|reason| reason.len() > 10), "{object}");
    }
    let (status, said) = check(&installation, &[&malformed, &id, &unsupported]);
    assert_eq!(status, 1);
    for (id, status) in [(&malformed, "malformed"), (&id, "ready"), (&unsupported, "unsupported")] {
        let is_it = |line: &str| line.split_whitespace().take(2).eq([id.as_str(), status]);
        assert!(said.lines().any(is_it), "{status}: {said}");
    }

    // Without an LC_UUID (here another load command of its size) no report can name it.
    let (mut nameless, _) = with_id(File::default().bytes(), 10);
    let at = nameless.windows(16).position(|bytes| bytes == [10; 16]).expect("its debug id");
    nameless[at - 8] = 0x7E;
    let upload = client.upload_symbols(nameless).await;
    let (status, seen) =
        client.get(&format!("/v1/symbols/uploads/{}", upload["id"].as_str().expect("an id"))).await;
    assert_eq!((status, &seen), (200, &upload));
    let object = &seen["objects"][0];
    assert_eq!(object["status"], "unsupported", "{seen}");
    assert!(object["reason"].as_str().is_some_and(|reason| reason.contains("LC_UUID")), "{seen}");
    assert!(object.get("debug_id").is_none(), "{seen}");

    // The same object once more, by itself and in an archive: nothing changes, and that is said.
    let before = client.get(&format!("/v1/symbols/{id}")).await;
    assert_eq!((before.0, &before.1["generation"]), (200, &1.into()));
    let (status, again) = client.post("/v1/symbols", app.dsym.clone()).await;
    assert_eq!((status, &again["existing"]), (202, &true.into()), "{again}");
    let archive = folder.path().join("app.tar");
    let dsym = fixtures::dsym("app");
    let inside = dsym.parent().expect("a folder");
    fixtures::run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(inside).arg("."));
    let again = client.upload_symbols(std::fs::read(&archive).expect("an archive")).await;
    assert_eq!((&again["status"], &again["objects"][0]["known"]), (&"done".into(), &true.into()), "{again}");
    assert_eq!(client.get(&format!("/v1/symbols/{id}")).await, before);
    installation.stop().await;
}

/// What is to be sent: far more than an api may need for one upload.
const LARGE: u64 = 384 << 20;
/// What an upload may cost: a part on its way to object storage, and what copies of it and buffers take.
const BOUND: u64 = 96 << 20;

/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_never_whole_in_the_apis_memory() {
    let mut installation = Installation::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large");
    std::fs::write(&path, File::default().bytes()).expect("written");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
    file.set_len(LARGE).expect("a long file");
    let before = installation.find_process("api").peak_bytes();
    assert!(before > 0);
    installation.command_succeeds(&["upload", "--no-wait", text(&path)]);
    let received = installation.fetch_metric("api", "unslide_api_upload_bytes_total").await;
    assert_eq!(received, Some(LARGE as f64));
    let more = installation.find_process("api").peak_bytes() - before;
    assert!(more < BOUND, "{more} bytes for a body of {LARGE}");
    installation.stop().await;
}
