//! A binary that comes after its reports, and one that is encrypted.

use serde_json::{Value, json};
use std::path::Path;
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::IN_BUNDLE;
use unslide_tests::installation::{Installation, TENANT};

const ID: &str = "00000000-0000-4000-8000-000000000001";
/// Load address of the program.
const LOAD: u64 = 0x1_0750_0000;
/// Address of the first node of the list.
const NODE: u64 = 0x2_8100_8000;

/// Returns a report of a crash in `second_score`: the pointer to the second node is null.
fn build_report(dsym: &[u8]) -> Value {
    let symcache =
        SymCache::parse(object::build_symcache(dsym).expect("an object").symcache).expect("a symcache");
    let mut ranges = symcache.ranges();
    let start = ranges.find_map(|(start, answer)| {
        let call = answer?.calls().next()?;
        (call.function.decode() == "second_score").then_some(start.0)
    });
    // The first instruction reads the second node's address, the second one its score.
    let pc = LOAD + start.expect("the function") + 4;
    let registers =
        json!({"x0": NODE, "x1": 3, "x8": 0, "fp": 0, "lr": LOAD, "sp": 0x1_6fdf_f000_u64, "pc": pc});
    let thread = json!({
        "index": 0, "crashed": true,
        "backtrace": {"contents": [{"instruction_addr": pc}], "skipped": 0},
        "registers": {"basic": registers, "exception": {"exception": 0, "esr": 0x9200_0006_u64, "far": 16}},
    });
    json!({
        "report": {"id": ID, "version": "3.6.0"},
        "binary_images": [{"name": IN_BUNDLE, "image_addr": LOAD, "image_size": 0x8000,
            "uuid": symcache.debug_id().to_string(), "cpu_type": 16_777_228, "cpu_subtype": 0}],
        "crash": {
            "error": {
                "type": "mach", "address": 16,
                "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1, "subcode": 16},
                "signal": {"signal": 11, "name": "SIGSEGV", "code": 0},
            },
            "threads": [thread],
        },
    })
}

/// Uploads a file to an installation as `unslide upload --binaries` does: its exit code and all that it prints.
fn upload_file(installation: &Installation, path: &Path, bytes: &[u8]) -> (i32, String) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, bytes).expect("written");
    let (status, output, error) =
        installation.run_command(&["upload", "--binaries", path.to_str().expect("UTF-8")]);
    (status, output + &error)
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_late_binary_names_the_bad_expression_of_its_reports_and_an_encrypted_one_is_refused() {
    let installation = Installation::start().await;
    let client = installation.client();
    let dsym = std::fs::read(fixtures::dsym("list")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dwarf = folder.path().join("list.dSYM/Contents/Resources/DWARF/list");
    let (status, printed) = upload_file(&installation, &dwarf, &dsym);
    assert!(status == 0 && printed.contains("1 uploaded"), "{printed}");
    let input = installation.topic_name("crash.reports");
    let report = build_report(&dsym).to_string();
    installation.topics.produce_record(&input, None, &[("tenant", TENANT)], report.as_bytes()).await;

    // The dSYM gives the names and the lines, and no variable has the bad pointer.
    let path = format!("/v1/reports/{ID}");
    let first = client.wait_for(&path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    let symbolication = &first["symbolication"];
    assert_eq!((&symbolication["revision"], &symbolication["status"]), (&1.into(), &"complete".into()));
    assert_eq!(symbolication["fault"]["verdict"], "null_pointer", "{symbolication}");
    assert!(symbolication["fault"]["subject"].is_null(), "{symbolication}");
    assert_eq!(symbolication["fault"]["abstained"][0]["reason"], "no_candidate", "{symbolication}");

    let app = folder.path().join("Shop.app/Shop");
    let (status, printed) = upload_file(&installation, &app, &fixtures::encrypted_binary("list"));
    assert_eq!(status, 1, "{printed}");
    for said in ["encrypted_binary", ".xcarchive", "0 uploaded", "1 failed"] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    let binary = std::fs::read(fixtures::binary("list")).unwrap();
    let (status, printed) = upload_file(&installation, &app, &binary);
    assert!(status == 0 && printed.contains("1 uploaded"), "{printed}");

    let is_next = |_, report: &Value| report["symbolication"]["revision"] == 2;
    let second = client.wait_for(&path, EVENTUAL_TIMEOUT, is_next).await;
    let subject = &second["symbolication"]["fault"]["subject"];
    assert_eq!((&subject["expression"], &subject["path"]), (&"p->next".into(), &"p->next->score".into()));
    let names = |report: &Value| report["crash"]["threads"][0]["backtrace"]["contents"][0].clone();
    assert_eq!(names(&second), names(&first), "the dSYM still answers");
    let (status, printed) = upload_file(&installation, &app, &binary);
    assert!(status == 0 && printed.contains("1 known before"), "{printed}");
    installation.stop().await;
}
