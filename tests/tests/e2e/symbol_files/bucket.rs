//! A dSYM that lies in a tenant's own bucket.

use std::time::Duration;
use unslide_embedded::S3Endpoint;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, FUNCTIONS, list_functions};
use unslide_tests::installation::{Installation, TENANT};

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_dsym_in_a_bucket_of_the_tenant_heals_the_report_that_waited_for_it() {
    let app = App::from_fixture("app");
    let folder = tempfile::tempdir().unwrap();
    let bucket = S3Endpoint::start(folder.path(), "builds").unwrap();
    let address = bucket.url();
    let port = address.rsplit(':').next().unwrap();
    let installation = Installation::start_with(&[
        ("UNSLIDE_BUILDER__SYMBOL_SOURCES__SEALING_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ("UNSLIDE_BUILDER__SYMBOL_SOURCES__NETWORKS", "127.0.0.0/8"),
        ("UNSLIDE_BUILDER__SYMBOL_SOURCES__PORTS", port),
    ])
    .await;
    let client = installation.client();
    let input = installation.topic_name("crash.reports");
    let report = app.build_report(1).bytes();
    installation.topics.produce_record(&input, None, &[("tenant", TENANT)], &report).await;
    let path = "/v1/reports/00000000-0000-4000-8000-000000000001";
    client.wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;

    let key = installation.make_key(TENANT, "tenant:admin");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, &bucket.secret_key).unwrap();
    let set = || {
        let arguments = [
            "symbol-source",
            "set",
            "builds",
            "--address",
            &address,
            "--bucket",
            "builds",
            "--prefix",
            "dsyms",
            "--access-key",
            &bucket.access_key,
            "--secret-key-file",
            secret.to_str().unwrap(),
            "--api-key",
            &key,
        ];
        tokio::task::block_in_place(|| installation.command_succeeds(&arguments))
    };
    let printed = set();
    assert!(printed.contains("/builds/dsyms") && !printed.contains(&bucket.secret_key), "{printed}");
    let mut printed = String::new();
    for _ in 0..600 {
        printed = tokio::task::block_in_place(|| installation.command_succeeds(&["symbols", "missing"]));
        if printed.contains("asked source builds at") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(printed.contains("not found, asked again at"), "{printed}");

    let digits = app.debug_id.uuid().simple().to_string();
    let (first, rest) = digits.split_at(2);
    let file = folder.path().join(format!("s3/builds/dsyms/{first}/{rest}"));
    std::fs::create_dir_all(&file).unwrap();
    // As symsorter writes it.
    std::fs::write(file.join("debuginfo"), zstd::encode_all(app.dsym.as_slice(), 3).unwrap()).unwrap();
    set();
    let healed =
        client.wait_for(path, EVENTUAL_TIMEOUT, |_, report| report["symbolication"]["revision"] == 2).await;
    assert_eq!(list_functions(&healed), FUNCTIONS.map(<[_]>::to_vec));
    let id = "00000000-0000-4000-8000-000000000001";
    let explained = tokio::task::block_in_place(|| installation.command_succeeds(&["explain", id]));
    assert!(explained.contains("from source builds"), "{explained}");
    installation.stop().await;
    bucket.stop().await;
}
