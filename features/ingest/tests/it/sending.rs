//! What apps send, and what they are answered.

use crate::ingest::ingest_api::{A, APP, B, public_key, report_of, send, start};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unslide_proto::headers;
use unslide_stream::Record;
use unslide_world::{World, report_json};

fn value(record: &Record) -> Value {
    serde_json::from_slice(record.value.as_ref().unwrap()).unwrap()
}

/// The request of KSCrash 2.5.1's standard sink, byte for byte.
fn kscrash_request(host: &str, key: &str, reports: &str) -> Vec<u8> {
    let boundary = "0c9f6a3b2d1e4f508a7b6c5d4e3f2a1b";
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"reports\"; filename=\"reports.json\"\r\n\
         Content-Type: application/json\r\n\r\n{reports}\r\n--{boundary}--\r\n"
    );
    let head = format!(
        "POST /i/{key} HTTP/1.1\r\nHost: {host}\r\nContent-Type: multipart/form-data; boundary={boundary}\r\n\
         User-Agent: KSCrashReporter\r\nAccept: */*\r\nAccept-Language: en-GB,en;q=0.9\r\n\
         Accept-Encoding: gzip, deflate, br\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head, body].concat().into_bytes()
}

async fn exchange(world: &World, request: &[u8]) -> String {
    let address = world.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_bytes_of_the_kscrash_sink_are_accepted_without_a_header() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP]).await;
    let text = format!("Incident Identifier: 1\nIdentifier:      {APP}\n");
    let reports = json!([report_json(A), report_json(B), text]).to_string();
    let host = world.url.strip_prefix("http://").unwrap();
    let answer = exchange(&world, &kscrash_request(host, key["key"].as_str().unwrap(), &reports)).await;
    assert!(
        answer.starts_with("HTTP/1.1 202 ") && answer.ends_with("\r\n\r\naccepted 3 reports"),
        "{answer}"
    );
    let head = answer.to_ascii_lowercase();
    assert!(
        head.contains("content-type: text/plain; charset=utf-8\r\n") && !head.contains("content-encoding")
    );
    let sorted = |mut values: Vec<Value>| {
        values.sort_by_key(Value::to_string);
        values
    };
    let sent = world.read_sent_records(3).await.iter().map(value).collect();
    assert_eq!(sorted(sent), sorted(vec![report_json(A), report_json(B), json!(text)]));
    world.stop().await;
}

#[tokio::test]
async fn one_bad_report_is_a_refused_record_and_the_others_are_reports() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP, "com.example.shop.*"]).await;
    let (text, id) = (key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    let watch = report_of("com.example.shop.watch", B);
    let body = format!("[{},{{\"crash\": }},{watch},{}]", report_json(A), report_of("com.example.other", A));
    let answer = send(&world, text, body.clone()).await;
    let line = "accepted 2 of 4 reports; report 1: at byte 10: a value expected";
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (202, line));
    let request =
        world.request(Method::POST, &format!("/i/{text}/"), "").header("accept", "application/json");
    let answer = world.send(request.body(body)).await.expect_status(202);
    assert_eq!(answer["accepted"], json!([A, B]));
    assert_eq!(answer["refused"][0]["type"], "not_json");
    assert_eq!(
        (&answer["refused"][1]["index"], &answer["refused"][1]["type"]),
        (&3.into(), &"wrong_app".into())
    );
    let sent = world.read_sent_records(8).await;
    let reasons: Vec<&str> =
        sent.iter().filter_map(|record| record.headers.get_text(headers::REFUSED_REASON)).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == "not_json").count(), 2, "{reasons:?}");
    assert_eq!((sent.len(), reasons.len()), (8, 4));
    for record in &sent {
        assert_eq!(record.headers.get_text(headers::TENANT), Some("acme"));
        assert_eq!(record.headers.get_text(headers::SENDER_KEY), Some(id));
        let detail = record.headers.get_text(headers::REFUSED_DETAIL);
        assert!(detail.is_none_or(|detail| detail.starts_with(&format!("public key {id}: "))), "{detail:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_flood_of_bad_reports_keeps_few_values_and_all_outcomes() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP]).await;
    let body = format!("[{},{}]", report_json(A), vec!["{\"crash\": }"; 30].join(","));
    let answer = send(&world, key["key"].as_str().unwrap(), body).await;
    assert!(answer.text.starts_with("accepted 1 of 31 reports; report 1: "), "{}", answer.text);
    let sent = world.read_sent_records(31).await;
    let kept = sent.iter().filter(|record| record.value.as_ref().is_some_and(|value| !value.is_empty()));
    assert_eq!((sent.len(), kept.count()), (31, 21));
    world.stop().await;
}

#[tokio::test]
async fn only_a_post_of_an_app_is_accepted() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP]).await;
    let text = key["key"].as_str().unwrap();
    let whole = format!("/i/{text}");
    for path in [whole.as_str(), &format!("{whole}/"), "/i/nothing", "/i", "/i/", &format!("{whole}/runs/x")]
    {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::PATCH]
        {
            let answer = world.send(world.request(method.clone(), path, "")).await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.headers["allow"], "POST");
            assert!(method == Method::HEAD || answer.text == "send reports with POST", "{}", answer.text);
        }
    }
    let refused = async |name: &str, value: &str| {
        let request =
            world.request(Method::POST, &whole, "").header(name, value).body(report_json(A).to_string());
        let answer = world.send(request).await;
        (answer.status.as_u16(), answer.text)
    };
    let browser = (403, "not for browsers".to_owned());
    assert_eq!(refused("origin", "https://example.com").await, browser);
    assert_eq!(refused("sec-fetch-site", "cross-site").await, browser);
    assert_eq!(refused("content-type", "text/html").await, (202, "accepted 1 report".to_owned()));
    for wrong in ["usp_x", "", "%FF", &text.replace("usp_", "USP_"), &format!("{text}0")] {
        let answer = send(&world, wrong, report_json(A).to_string()).await;
        assert!([401, 404].contains(&answer.status.as_u16()), "{wrong}: {}", answer.text);
    }
    assert_eq!(send(&world, "usp_x", "{}").await.text, "unknown key");
    for (body, status, line) in [
        (" ".to_owned(), 400, "the body has no report"),
        (
            "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{}".to_owned(),
            400,
            "the multipart body ends",
        ),
        (format!("[{}]", vec!["{}"; 101].join(",")), 413, "more than 100 reports"),
        (" ".repeat((5 << 20) + 1), 413, "the body has more than 5242880 bytes"),
    ] {
        let answer = send(&world, text, body).await;
        assert_eq!(answer.status.as_u16(), status, "{line}: {}", answer.text);
        assert!(answer.text.starts_with(line), "{line}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
    world.stop().await;
}
