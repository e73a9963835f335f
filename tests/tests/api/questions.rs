//! The question of a door: each route of a tenant names it, and goes no further.

use crate::cases::{Case, cases, document, operations};
use crate::world::{Answer, Browser, World, encode_form, report_json};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;

const STRANGER: &str = "unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A world whose api trusts the test as its door, and changes nothing by itself.
async fn start_behind_door() -> World {
    World::still(|config| config.api.trusted_proxies = vec!["127.0.0.0/8".to_owned()]).await
}

async fn ask(world: &World, request: reqwest::RequestBuilder) -> Answer {
    world.send(request.header("unslide-ask", "tenant")).await
}

/// The status of the answer, and the tenant that it names.
fn told(answer: &Answer) -> (u16, &str) {
    assert_eq!(answer.headers["unslide-ask"], "tenant");
    assert_eq!(answer.text, "");
    let tenant = answer.headers.get("unslide-tenant").map_or("", |tenant| tenant.to_str().unwrap());
    (answer.status.as_u16(), tenant)
}

/// The number of rows of every table.
async fn count_rows(world: &World) -> String {
    let query = "SELECT string_agg(relname || ' ' || (xpath('/row/rows/text()',
            query_to_xml(format('SELECT count(*) AS rows FROM %I', relname), false, true, '')))[1]::text, ', ' ORDER BY relname)
        FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'resource_uses'";
    world.text(query).await
}

fn request(world: &World, method: &Method, case: &Case, key: &str) -> reqwest::RequestBuilder {
    let request = world.request(method.clone(), &case.path, key);
    match &case.body {
        Some(Value::String(text)) => request.body(text.clone()),
        Some(body) => request.body(body.to_string()),
        None => request,
    }
}

#[tokio::test]
async fn every_operation_names_its_tenant_and_changes_nothing() {
    let world = start_behind_door().await;
    let acme = world.create_master_key("acme").await;
    let cases = cases(&world, &acme).await;
    let before = count_rows(&world).await;
    for (id, method, ..) in operations(&document()) {
        let case = &cases[id.as_str()];
        let asked = ask(&world, request(&world, &method, case, &acme)).await;
        assert_eq!(told(&asked), (204, "acme"), "{id}");
        let bare = ask(&world, world.request(method.clone(), &case.path, &acme)).await;
        assert_eq!(told(&bare), (204, "acme"), "{id}: the head says whose it is");
        let stranger = ask(&world, request(&world, &method, case, STRANGER)).await;
        assert_eq!(told(&stranger), (404, ""), "{id}");
    }
    assert_eq!(count_rows(&world).await, before);
    world.stop().await;
}

#[tokio::test]
async fn callers_without_an_api_key_are_named_too_and_nothing_happens() {
    let world = start_behind_door().await;
    let key = world.create_master_key("acme").await;
    let body = json!({"name": "app", "apps": ["com.example.shop"]});
    let public = world.post_json("/v1/public-keys", &key, &body);
    let public = public.await.expect_status(201)["key"].as_str().unwrap().to_owned();
    let names =
        world.post_json("/v1/names-keys", &key, &json!({"name": "profiler"})).await.expect_status(201);
    let names = names["text"].as_str().unwrap().to_owned();
    let browser = Browser::signed_in(&world, &key).await;
    let before = count_rows(&world).await;
    // As a browser does that sends a form of the same site.
    let same_site = ("sec-fetch-site", "same-origin");
    let post = |path: &str, body: String| {
        world.request(Method::POST, path, "").header(same_site.0, same_site.1).body(body)
    };
    let form = encode_form(&[("key", &key), ("name", "Robin"), ("next", "")]);
    let unknown = encode_form(&[("key", STRANGER), ("name", "Robin"), ("next", "")]);
    let known = (204, "acme");
    for (asked, answer) in [
        (
            post(&format!("/i/{public}"), report_json("11111111-1111-1111-1111-111111111111").to_string()),
            known,
        ),
        (post(&format!("/i/{public}"), String::new()), known),
        (post("/i/usp_unknown", "{}".to_owned()), (404, "")),
        (post(&format!("/symbols/{names}/symbolicate/v5"), "{}".to_owned()), known),
        (post("/console/sign-in", form), known),
        (post("/console/sign-in", unknown), (404, "")),
        (post("/console/sign-in", String::new()), (404, "")),
        (browser.request(Method::GET, "/console/groups"), known),
        (browser.request(Method::GET, "/console/sign-in"), known),
        (browser.request(Method::POST, "/console/sign-out").header(same_site.0, same_site.1), known),
        (world.request(Method::GET, "/console/groups", ""), (404, "")),
        (world.request(Method::GET, "/console/sign-in", ""), (200, "")),
        (world.request(Method::GET, "/docs", ""), (200, "")),
        (world.request(Method::GET, "/no-such-path", ""), (404, "")),
    ] {
        let request = asked.try_clone().unwrap().build().unwrap();
        let answered = ask(&world, asked).await;
        assert_eq!(told(&answered), answer, "{} {}", request.method(), request.url().path());
    }
    let noted = world.text("SELECT string_agg(action, ', ' ORDER BY at) FROM audit_log").await;
    assert_eq!(count_rows(&world).await, before, "{noted}");
    // The session goes on, and no report was counted as refused.
    browser.fetch_page("/console/groups").await;
    let page = world.host.process_metrics().render_page().unwrap();
    assert!(!page.contains("unslide_api_public_reports_total{"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_question_of_anyone_but_a_trusted_proxy_is_a_request_like_others() {
    let world = World::still(|_| {}).await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let asked = ask(&world, world.request(Method::GET, "/v1/reports", &key)).await;
    assert!(!asked.headers.contains_key("unslide-tenant") && !asked.headers.contains_key("unslide-ask"));
    assert_eq!(asked.expect_status(200), json!({"items": []}));
    let admin = world.create_master_key("acme").await;
    let view = json!({"name": "new", "filter": {"status": "open"}}).to_string();
    let asked = ask(&world, world.request(Method::POST, "/v1/group-views", &admin).body(view)).await;
    assert_eq!(asked.expect_status(201)["name"], "new");
    world.stop().await;
}
