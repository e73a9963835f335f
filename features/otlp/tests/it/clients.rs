//! OpenTelemetry's own exporter sends to the service.

use crate::otlp::otlp_api::{APP, public_key, start};
use std::path::Path;
use unslide_model::Scope;

/// Runs where a venv has the exporter: `scripts/check-otlp` makes it. It is run by name.
#[tokio::test]
#[ignore = "installs an exporter from PyPI"]
async fn the_exporter_for_python_is_answered_with_success() {
    let world = start(443).await;
    let public = public_key(&world, APP).await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-otlp");
    let run = tokio::process::Command::new(script).args([&world.url, &key, &public, "--sent"]).output();
    let output = run.await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    // A crash by each door and compression; the ordinary logs are counted.
    assert_eq!(world.read_sent_records(4).await.len(), 4, "{told}");
    assert_eq!(world.read_metric("unslide_api_otlp_records_total{outcome=\"other\"}"), 4.0);
    world.stop().await;
}
