//! Reports straight from an app: from a form without a key in a header to the list of reports, the dead letters and the audit.
//! Proves: one-outcome

use serde_json::Value;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_three_becomes_two_reports_and_one_dead_letter() {
    let installation = Installation::start().await;
    let app = App::from_fixture("app");
    let create = ["key", "create", "--tenant", TENANT, "--kind", "public", "--app", app.bundle];
    let output = installation.command_succeeds(&create);
    let key = output.split_whitespace().find(|word| word.starts_with("usp_")).expect("a key");
    let [first, second] =
        [1, 2].map(|number| String::from_utf8(app.build_report(number).bytes()).expect("a report"));
    let form = format!(
        "--b0\r\nContent-Disposition: form-data; name=\"reports\"; filename=\"reports.json\"\r\n\
         Content-Type: application/json\r\n\r\n[{first},{{\"crash\": }},{second}]\r\n--b0--\r\n"
    );
    let request = reqwest::Client::new().post(format!("{}/i/{key}", installation.url));
    let request = request.header("content-type", "multipart/form-data; boundary=b0").body(form);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 202);
    let line = answer.text().await.expect("a text");
    assert!(line.starts_with("accepted 2 of 3 reports; report 1: at byte 10"), "{line}");

    let client = installation.client();
    let number = |body: &Value| body["items"].as_array().map_or(0, Vec::len);
    let reports = client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, |_, body| number(body) == 2).await;
    assert_eq!(reports["items"][0]["app"], app.bundle);
    let admin =
        installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", "tenant:admin"]);
    let admin = admin.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key");
    let admin = Client::new(&installation.url, admin);
    let letters = admin.wait_for("/v1/dead-letters", EVENTUAL_TIMEOUT, |_, body| number(body) == 1).await;
    let letter = &letters["items"][0];
    assert_eq!(letter["reason"], "not_json", "{letter}");
    let detail = letter["detail"].as_str().expect("a detail");
    assert!(detail.starts_with("public key ") && detail.contains(": at byte 10: "), "{detail}");
    let (status, output, _) = installation.run_command(&["audit", "--json"]);
    assert_eq!(status, 0, "{output}");
    installation.stop().await;
}
