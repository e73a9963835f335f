//! Each kind of caller reaches the cell of its tenant, and no other.

use crate::two_cells::TwoCells;
use reqwest::{Method, StatusCode};
use serde_json::json;
use unslide_model::Scope;
use unslide_store::keys::{NewApiKey, revoke_key};
use unslide_world::{Answer, World, encode_form, redirect_location, report_json, tenant_id, wait_until};

const STRANGER: &str = "unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Makes a key in the path of a URL, and returns its text.
async fn make_path_key(cell: &World, tenant: &str, path: &str, new: &serde_json::Value) -> String {
    let admin = cell.create_master_key(tenant).await;
    let made = cell.post_json(path, &admin, new).await.expect_status(201);
    // A public key is no secret: its text is the key.
    made["text"].as_str().or(made["key"].as_str()).unwrap().to_owned()
}

#[tokio::test]
async fn keys_reach_the_cell_of_their_tenant() {
    let cells = TwoCells::start().await;
    for (cell, tenant, name) in [(&cells.eu, "acme", "eu"), (&cells.us, "umbrella", "us")] {
        let key = cell.create_master_key(tenant).await;
        // Of the other cell the key is unknown.
        cells.get("/v1/key", &key).await.expect_status(200);
        let view = json!({"name": "of the door", "filter": {"status": "open"}});
        let made = cells.request(Method::POST, "/v1/group-views", &key).body(view.to_string());
        cells.send(made).await.expect_status(201);
        assert_eq!(cell.number("SELECT count(*) FROM group_views").await, 1, "{name}");
        let passed = format!("unslide_door_requests_total{{cell=\"{name}\",status=\"2xx\"}}");
        assert!(cells.read_metric(&passed) >= 2.0);
    }
    assert_eq!(cells.read_metric("unslide_door_callers_total{found=\"asked\"}"), 2.0);
    assert_eq!(cells.read_metric("unslide_door_callers_total{found=\"remembered\"}"), 2.0);
    cells.stop().await;
}

#[tokio::test]
async fn an_unknown_key_is_refused_by_an_api_and_one_that_was_just_made_works() {
    let cells = TwoCells::start().await;
    for path in ["/v1/reports", "/v1/key"] {
        cells.get(path, STRANGER).await.expect_problem(401, "unauthorized");
        cells.get(path, "").await.expect_problem(401, "unauthorized");
    }
    let new =
        NewApiKey { name: "test".to_owned(), scopes: vec![Scope::ReportsRead], app: None, expires_at: None };
    let (id, key) = cells.us.make_key("umbrella", &new).await;
    cells.get("/v1/reports", &key).await.expect_status(200);
    // The cell says that it was revoked, whatever the door remembers.
    let mut tx = cells.us.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(revoke_key(&mut tx, id, None).await.unwrap());
    tx.commit().await.unwrap();
    let is_refused = async || cells.status("/v1/reports", &key).await == 401;
    assert!(wait_until(is_refused).await);
    cells.stop().await;
}

#[tokio::test]
async fn keys_in_paths_and_bodies_reach_the_cell_of_their_tenant() {
    let cells = TwoCells::start().await;
    let app = json!({"name": "app", "apps": ["com.example.shop"]});
    let public = make_path_key(&cells.us, "umbrella", "/v1/public-keys", &app).await;
    for n in 1..=2 {
        let id = format!("{n}1111111-1111-1111-1111-111111111111");
        let sent =
            cells.request(Method::POST, &format!("/i/{public}"), "").body(report_json(&id).to_string());
        let answer = cells.send(sent).await;
        assert!(answer.status.is_success(), "{}: {}", answer.status, answer.text);
    }
    assert_eq!(cells.us.read_sent_records(2).await.len(), 2);
    let names = make_path_key(&cells.us, "umbrella", "/v1/names-keys", &json!({"name": "profiler"})).await;
    let jobs = json!({"jobs": [{"memoryMap": [["Shop", "0123456789ABCDEF0123456789ABCDEF0"]], "stacks": [[[0, 1]]]}]});
    let path = format!("/symbols/{names}/symbolicate/v5");
    cells.send(cells.request(Method::POST, &path, "").body(jobs.to_string())).await.expect_status(200);
    // An upload client names its key in the form.
    let key = cells.us.create_key("umbrella", &[Scope::SymbolsWrite]).await;
    let form = |key: &str| {
        format!(
            "--b\r\ncontent-disposition: form-data; name=\"apiKey\"\r\n\r\n{key}\r\n--b\r\ncontent-disposition: form-data; \
             name=\"dsym\"; filename=\"app\"\r\n\r\n{}\r\n--b--\r\n",
            "x".repeat(200_000)
        )
    };
    let upload = async |key: &str| {
        let request = cells.request(Method::POST, "/dsym", "").body(form(key));
        cells.send(request.header("content-type", "multipart/form-data; boundary=b")).await
    };
    // The file is no dSYM: its own cell says so.
    assert_eq!(upload(&key).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(upload(STRANGER).await.status, StatusCode::UNAUTHORIZED);
    cells.stop().await;
}

async fn sign_in(cells: &TwoCells, key: &str, cookie: &str) -> Answer {
    let form = encode_form(&[("key", key), ("name", "Robin"), ("next", "")]);
    let request = cells.request(Method::POST, "/console/sign-in", "").header("sec-fetch-site", "same-origin");
    cells.send(request.header("cookie", cookie).body(form)).await
}

fn read_cookie(answer: &Answer) -> String {
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_signs_in_at_one_address_and_sees_the_pages_of_their_cell() {
    let cells = TwoCells::start().await;
    let (acme, umbrella) =
        (cells.eu.create_master_key("acme").await, cells.us.create_master_key("umbrella").await);
    assert_eq!(cells.status("/console/sign-in", "").await, 200);
    assert_eq!(cells.status("/docs", "").await, 200);
    let refused = sign_in(&cells, STRANGER, "").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let cookies =
        [read_cookie(&sign_in(&cells, &acme, "").await), read_cookie(&sign_in(&cells, &umbrella, "").await)];
    let open = async |path: &str, cookie: &str| {
        cells.send(cells.request(Method::GET, path, "").header("cookie", cookie)).await
    };
    for (cookie, own, other) in [(&cookies[0], "acme", "umbrella"), (&cookies[1], "umbrella", "acme")] {
        let page = open("/console/keys", cookie).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        assert!(page.text.contains(own) && !page.text.contains(other), "{own}");
        // Its page that anyone sees comes from the same cell.
        assert_eq!(redirect_location(&open("/console/sign-in", cookie).await), "/console");
    }
    let sessions = "SELECT count(*) FROM console_sessions";
    assert_eq!((cells.eu.number(sessions).await, cells.us.number(sessions).await), (1, 1));
    // The same browser goes to the other tenant, and out.
    let cookie = read_cookie(&sign_in(&cells, &acme, &cookies[1]).await);
    assert_eq!(open("/console/keys", &cookie).await.status, StatusCode::OK);
    let out = cells.request(Method::POST, "/console/sign-out", "").header("sec-fetch-site", "same-origin");
    assert_eq!(cells.send(out.header("cookie", &cookie)).await.status, StatusCode::SEE_OTHER);
    assert_ne!(open("/console/keys", &cookie).await.status, StatusCode::OK);
    cells.stop().await;
}
