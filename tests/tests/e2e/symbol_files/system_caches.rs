//! Names of system functions from a dyld shared cache.

use serde_json::Value;
use std::path::PathBuf;
use unslide_testkit::fixtures;
use unslide_testkit::reports::{ARM64, Error, Frame, Image, Report, Thread};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::list_functions;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// Distance of the libraries in the reports from their addresses in the cache.
const SLIDE: u64 = 0x1000_0000;
const REPORT: &str = "/v1/reports/00000000-0000-4000-8000-000000000001";
const FUNCTIONS: [&[&str]; 2] = [&["-[DKView layoutSubviews]"], &["demo::helper()"]];

fn cache(layout: &str) -> PathBuf {
    fixtures::dyld_caches().join(layout)
}

/// Makes a report of a crash in one library that another one called.
fn report() -> Vec<u8> {
    let expected = std::fs::read(cache("ios26-split").join("expected.json")).expect("a generated cache");
    let expected: Value = serde_json::from_slice(&expected).expect("a generated cache");
    let mut report = Report::standard().id("00000000-0000-4000-8000-000000000001").error(Error::Mach);
    let mut frames = Vec::new();
    for (path, name) in
        [("/DemoKit", "-[DKView layoutSubviews]"), ("libc++demo.1.dylib", "__ZN4demoL6helperEv")]
    {
        let images = expected["images"].as_array().expect("a generated cache");
        let image = images
            .iter()
            .find(|image| image["path"].as_str().expect("a generated cache").ends_with(path))
            .expect("a generated cache");
        let address = image["text_vmaddr"].as_u64().expect("a generated cache");
        let symbols = image["symbols"].as_array().expect("a generated cache");
        let symbol =
            symbols.iter().find(|symbol| symbol["names"][0]["name"] == name).expect("a generated cache");
        frames.push(address + SLIDE + symbol["offset"].as_u64().expect("a generated cache") + 8);
        let (path, uuid) = (
            image["path"].as_str().expect("a generated cache"),
            image["uuid"].as_str().expect("a generated cache"),
        );
        let size = image["text_size"].as_u64().expect("a generated cache");
        report = report.image(Image::new(path, uuid, address + SLIDE).vmaddr(address).size(size).cpu(ARM64));
    }
    let crash = frames[0];
    let thread =
        Thread::new(0).frames(frames.into_iter().map(Frame::at)).crashed().all_registers(ARM64, crash);
    report.thread(thread).bytes()
}

async fn wait_for_names(client: &Client) {
    let wanted: Vec<Vec<&str>> = FUNCTIONS.map(<[_]>::to_vec).to_vec();
    let report =
        client.wait_for(REPORT, EVENTUAL_TIMEOUT, |_, report| list_functions(report) == wanted).await;
    assert_eq!(report["symbolication"]["missing"].as_array().map_or(0, Vec::len), 0, "{report}");
}

/// Imports a cache and returns the printed line.
fn import(installation: &Installation, arguments: &[&str]) -> String {
    installation.command_succeeds(&[&["system-symbols", "import"], arguments].concat())
}

fn coverage(installation: &Installation, key: &[&str]) -> Value {
    let command = [&["system-symbols", "coverage", "--json"], key].concat();
    let answer: Value =
        serde_json::from_str(&installation.command_succeeds(&command)).expect("an answer in JSON");
    answer["items"][0].clone()
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn imported_names_reach_reports_that_wait_for_them_and_no_other_tenant() {
    let mut installation = Installation::start().await;
    let umbrella_name = "umbrella";
    let acme = installation.client();
    let acme_key = make_key(&installation, TENANT, "reports:read");
    installation.make_tenant(umbrella_name);
    let umbrella = installation.client();
    let input = installation.topic_name("crash.reports");
    for tenant in [TENANT, umbrella_name] {
        installation.topics.produce_record(&input, None, &[("tenant", tenant)], &report()).await;
    }
    for client in [&acme, &umbrella] {
        let stored = client.wait_for(REPORT, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
        assert_eq!(
            stored["symbolication"]["missing"].as_array().expect("a generated cache").len(),
            2,
            "{stored}"
        );
    }
    let acme_key = ["--api-key", acme_key.as_str()];
    let before = coverage(&installation, &acme_key);
    assert_eq!((&before["state"], before["images"].as_u64()), (&"none".into(), Some(2)), "{before}");

    // A tenant's own import answers its own reports only.
    let (single, split) = (cache("ios14-single"), cache("ios26-split"));
    let (single, split) =
        (single.to_str().expect("a generated cache"), split.to_str().expect("a generated cache"));
    let own = make_key(&installation, umbrella_name, "symbols:write");
    let printed = import(&installation, &["--tenant-only", "--api-key", &own, "--build", "18A5", single]);
    assert!(printed.contains("(18A5) arm64e: 6 libraries, 6 new, 0 known"), "{printed}");
    wait_for_names(&umbrella).await;
    let untouched = acme.wait_for(REPORT, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    assert_eq!(untouched["symbolication"]["revision"], 1);
    assert_eq!(coverage(&installation, &acme_key)["state"], "none");

    // A tenant's key is no operator's.
    let (status, _, error) =
        installation.run_command(&["system-symbols", "import", "--api-key", &own, split]);
    assert!(status == 5 && error.contains("--tenant-only"), "{status} {error}");
    let operator = make_key(&installation, TENANT, "operator");
    let key = ["--api-key", operator.as_str()];
    let printed = import(&installation, &[&key[..], &["--dry-run", split]].concat());
    assert!(printed.contains("arm64e: 6 libraries, 6 lacking, 0 known"), "{printed}");
    let printed = import(&installation, &[&key[..], &[split]].concat());
    assert!(printed.contains("iOS 26.0 arm64e: 6 libraries, 6 new, 0 known"), "{printed}");
    wait_for_names(&acme).await;
    let after = coverage(&installation, &acme_key);
    assert_eq!((&after["state"], after["named_images"].as_u64()), (&"whole".into(), Some(2)), "{after}");
    let printed = import(&installation, &[&key[..], &[split]].concat());
    assert!(printed.contains("6 libraries, 0 new, 6 known"), "{printed}");

    // A tenant removes the build that it imported, and imports it again.
    let own = ["--tenant-only", "--api-key", &own, "--build", "18A5"];
    let remove = |more: &[&str]| {
        installation.command_succeeds(&[&["system-symbols", "remove"], &own[..], more].concat())
    };
    let printed = remove(&["--dry-run"]);
    assert!(printed.contains("18A5: names of 6 images would be removed"), "{printed}");
    let printed = remove(&["--yes"]);
    assert!(printed.contains("18A5: names of 6 images were removed, 0 images keep"), "{printed}");
    let printed = import(&installation, &[&own[..], &[single]].concat());
    assert!(printed.contains("6 libraries, 6 new, 0 known"), "{printed}");
    installation.stop().await;
}

fn make_key(installation: &Installation, tenant: &str, scope: &str) -> String {
    let made = installation.command_succeeds(&["key", "create", "--tenant", tenant, "--scope", scope]);
    made.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a generated cache").to_owned()
}
