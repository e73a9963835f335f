//! A dSYM that comes after its reports.

use std::time::Duration;
use unslide_tests::app::{App, FUNCTIONS, functions};
use unslide_tests::installation::{Installation, TENANT};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_late_dsym_heals_the_reports_that_waited_for_it() {
    let app = App::fixture("app");
    let installation = Installation::start().await;
    let client = installation.client();
    let input = installation.topic("crash.reports");
    let output = installation.topic("crash.symbolicated");
    let reports = 20;
    for number in 0..reports {
        let report = app.report(number).bytes();
        installation.topics.produce(&input, None, &[("tenant", TENANT)], &report).await;
    }
    let all = reports as usize;
    let first = installation.topics.wait_for(&output, SOON, |records| records.len() >= all).await;
    for record in &first {
        let report = record.json();
        assert_eq!(report["symbolication"]["revision"], 1);
        assert_eq!(report["symbolication"]["missing"][0], app.debug_id.to_string(), "{report}");
        assert_eq!(functions(&report), [Vec::<String>::new(), Vec::new()], "nothing is guessed");
    }
    let missing = client
        .wait_for("/v1/missing-symbols", SOON, |_, page| page.to_string().contains(&app.debug_id.to_string()))
        .await;
    assert!(missing.to_string().contains(&reports.to_string()), "{missing}");

    client.upload(app.dsym.clone()).await;
    let healed = installation.topics.wait_for(&output, SOON, |records| records.len() >= 2 * all).await;
    let again: Vec<_> = healed.iter().filter(|record| record.header("revision") == "2").collect();
    assert_eq!(again.len(), all, "each report comes back once");
    for record in again {
        let report = record.json();
        assert_eq!(report["symbolication"]["supersedes"], 1);
        assert_eq!(report["symbolication"]["status"], "complete");
        assert_eq!(functions(&report), FUNCTIONS.map(<[_]>::to_vec));
    }
    let id = "00000000-0000-4000-8000-000000000001";
    let stored = client
        .wait_for(&format!("/v1/reports/{id}"), SOON, |_, report| report["symbolication"]["revision"] == 2)
        .await;
    assert_eq!(functions(&stored), FUNCTIONS.map(<[_]>::to_vec));
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_system_symbols_heal_the_reports_of_every_tenant() {
    let app = App::fixture("app");
    let mut installation = Installation::start().await;
    let acme = installation.client();
    installation.make_tenant("umbrella");
    let umbrella = installation.client();
    let input = installation.topic("crash.reports");
    for tenant in [TENANT, "umbrella"] {
        let report = app.system_report(1).bytes();
        installation.topics.produce(&input, None, &[("tenant", tenant)], &report).await;
    }
    let path = "/v1/reports/00000000-0000-4000-8000-000000000001";
    for client in [&acme, &umbrella] {
        let report = client.wait_for(path, SOON, |status, _| status == 200).await;
        assert_eq!(report["symbolication"]["missing"][0], app.debug_id.to_string(), "{report}");
        assert_eq!(report["symbolication"]["images"][0]["system"], true);
    }
    // A tenant's key is no operator's.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("usr/lib")).unwrap();
    std::fs::write(folder.path().join("usr/lib/libshop.dylib"), &app.dsym).unwrap();
    let folder = folder.path().to_str().unwrap();
    let (status, _, error) = installation.command(&["upload", "--system", folder]);
    assert!(status != 0 && error.contains("403"), "{error}");
    let made = installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", "operator"]);
    let key = made.split_whitespace().find(|word| word.starts_with("unslide_")).unwrap();
    let printed = installation.command_succeeds(&["upload", "--system", "--api-key", key, folder]);
    assert!(printed.contains("1 uploaded"), "{printed}");
    let printed = installation.command_succeeds(&["upload", "--system", "--api-key", key, folder]);
    assert!(printed.contains("1 known before"), "{printed}");
    for client in [&acme, &umbrella] {
        let report = client.wait_for(path, SOON, |_, report| report["symbolication"]["revision"] == 2).await;
        assert_eq!(functions(&report), FUNCTIONS.map(<[_]>::to_vec));
    }
    installation.stop().await;
}
