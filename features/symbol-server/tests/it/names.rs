//! Names for profilers, with a key in the path.

use crate::symbol_server::world::{APP, SymbolWorld};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::accounts::create_key_of_kind;
use unslide_store::keys::NewKey;
use unslide_symbol_server::NAMES_KEYS;
use unslide_world::{Answer, tenant_id};

/// Makes a names key, and returns its id and its text.
async fn names_key(world: &SymbolWorld, tenant: &str, app: Option<&str>) -> (String, String) {
    let admin = world.create_key(tenant, &[Scope::TenantAdmin, Scope::SymbolsRead]).await;
    let new = json!({"name": "team", "app": app});
    let made = world.post_json("/v1/names-keys", &admin, &new).await.expect_status(201);
    (made["id"].as_str().unwrap().to_owned(), made["text"].as_str().unwrap().to_owned())
}

async fn ask(world: &SymbolWorld, key: &str, body: &Value) -> Answer {
    world.post(&format!("/symbols/{key}/symbolicate/v5"), "", body.to_string()).await
}

#[tokio::test]
async fn a_profiler_reads_names_lines_and_inlined_calls() {
    let world = SymbolWorld::start().await;
    let app = world.upload_dsym("acme", "app").await;
    let (_, key) = names_key(&world, "acme", None).await;
    let id = format!("{}0", app.ids[0].to_compact().to_uppercase());
    let missing = "000000000000000000000000000000010";
    let job = json!({
        "memoryMap": [["app", id], ["other", missing], ["unused", missing]],
        "stacks": [[[0, 0x4034], [1, 16], [-1, 5]]]
    });
    let answer = ask(&world, &key, &job).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
    let answer = answer.expect_status(200);
    let inline = |function: &str, line: u32| json!({"function": function, "file": "/fixture/src/inline.c", "line": line});
    let inlines = [inline("level_three", 20), inline("level_two", 27), inline("level_one", 33)];
    assert_eq!(
        answer["results"][0]["stacks"][0],
        json!([
            {"frame": 0, "module_offset": "0x4034", "module": "app", "function": "do_work", "function_offset": "0x28",
             "file": "/fixture/src/inline.c", "line": 38, "inlines": inlines},
            {"frame": 1, "module_offset": "0x10", "module": "other"},
            {"frame": 2, "module_offset": "0x5", "module": "<unknown>"}
        ])
    );
    let found = &answer["results"][0]["found_modules"];
    assert_eq!(found[format!("app/{id}")], true);
    assert_eq!(
        (&found[format!("other/{missing}")], &found[format!("unused/{missing}")]),
        (&json!(false), &Value::Null)
    );
    // The cache of all tenants was not asked for ids that no system has: its time would tell others who asked.
    assert_eq!(world.read_metric(r#"unslide_symcaches{state="missing"}"#), 1.0);
    let several = ask(&world, &key, &json!({"jobs": [job, job]})).await.expect_status(200);
    assert_eq!(several["results"].as_array().unwrap().len(), 2);

    let wrong = ask(&world, &key, &json!({"memoryMap": []})).await;
    assert_eq!(
        (wrong.status.as_u16(), &wrong.headers["access-control-allow-origin"]),
        (400, &"*".parse().unwrap())
    );
    assert!(wrong.parse_json()["error"].as_str().unwrap().contains("either jobs"));
    let path = format!("/symbols/{key}/symbolicate/v5");
    let preflight = world.send(world.request(Method::OPTIONS, &path, "")).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.headers["access-control-allow-methods"], "GET, POST");

    let text = world.get(&format!("/symbols/{key}/app/{id}/app.sym"), "").await;
    assert_eq!(text.status, 200);
    assert!(text.text.starts_with(&format!("MODULE mac arm64 {id} app\n")), "{}", text.text);
    assert!(text.text.contains("\nFUNC ") && text.text.contains(" do_work\n"), "{}", text.text);
    let absent = world.get(&format!("/symbols/{key}/app/{missing}/app.sym"), "").await;
    assert_eq!(absent.status, 404);
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_names_key_gives_names_of_its_tenant_and_app_and_nothing_else() {
    let world = SymbolWorld::start().await;
    let app = world.upload_dsym("acme", "app").await;
    let id = format!("{}0", app.ids[0].to_compact().to_uppercase());
    let body = json!({"memoryMap": [["app", id]], "stacks": [[[0, 0x4034]]]});
    let is_found = async |key: &str| {
        let answer = ask(&world, key, &body).await.expect_status(200);
        let text = world.get(&format!("/symbols/{key}/app/{id}/app.sym"), "").await.status;
        let found = answer["results"][0]["found_modules"][format!("app/{id}")] == true;
        assert_eq!(found, text == 200);
        found
    };
    let (own_id, own) = names_key(&world, "acme", None).await;
    assert!(is_found(&own).await);
    assert!(is_found(&names_key(&world, "acme", Some(APP)).await.1).await);
    assert!(!is_found(&names_key(&world, "acme", Some("com.example.other")).await.1).await);
    assert!(!is_found(&names_key(&world, "umbrella", None).await.1).await);
    // It is no key of the API, and never gives a file.
    let path = format!("/v1/symbols/{}/file", app.ids[0]);
    for path in [path.as_str(), "/v1/key", "/v1/symbols", "/v1/names-keys"] {
        world.get(path, &own).await.expect_problem(401, "unauthorized");
    }
    world
        .get(&format!("/debuginfod/buildid/{}/debuginfo", app.ids[0].to_compact()), &own)
        .await
        .expect_problem(401, "unauthorized");
    let master = world.create_master_key("acme").await;
    assert_eq!(ask(&world, &master, &body).await.status, 401);
    // Another tenant's administrator neither sees nor deletes it.
    let foreign = world.create_master_key("umbrella").await;
    let listed = world.get("/v1/names-keys", &foreign).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let own_path = format!("/v1/names-keys/{own_id}");
    world.delete(&own_path, &foreign).await.expect_problem(404, "not-found");
    assert!(is_found(&own).await);
    world.delete(&own_path, &master).await.expect_status(204);
    assert_eq!(ask(&world, &own, &body).await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn a_key_expires_is_audited_and_is_made_within_the_rights_of_its_maker() {
    let world = SymbolWorld::start().await;
    let (id, key) = names_key(&world, "acme", None).await;
    let body = json!({"memoryMap": [], "stacks": []});
    ask(&world, &key, &body).await.expect_status(200);
    let admin = world.create_master_key("acme").await;
    let is_audited = async || {
        let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
        let entries = log["items"].as_array().unwrap();
        let has =
            |action: &str| entries.iter().any(|entry| entry["action"] == action && entry["subject"] == id);
        has("names_key.create") && has("names.read")
    };
    assert!(unslide_world::wait_until(is_audited).await);
    let listed = world.get("/v1/names-keys", &admin).await;
    assert!(listed.text.contains(&id) && !listed.text.contains("usn_"), "{}", listed.text);

    let weak = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let refused = world.post_json("/v1/names-keys", &weak, &json!({"name": "a"})).await;
    assert!(refused.expect_problem(403, "insufficient-scope").contains("symbols:read"));
    let of_app = world.key_for("acme", &[Scope::TenantAdmin, Scope::SymbolsRead], Some(APP)).await;
    world
        .post_json("/v1/names-keys", &of_app, &json!({"name": "a"}))
        .await
        .expect_problem(403, "insufficient-scope");
    world.post_json("/v1/names-keys", &of_app, &json!({"name": "a", "app": APP})).await.expect_status(201);
    let listed = world.get("/v1/names-keys", &of_app).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let late = json!({"name": "a", "expires_at": "2999-01-01T00:00:00Z"});
    world.post_json("/v1/names-keys", &admin, &late).await.expect_problem(400, "invalid-body");

    world
        .execute(&format!("UPDATE keys SET expires_at = now() - interval '1 day' WHERE prefix = '{id}'"))
        .await;
    // This process looks the key up again after some seconds.
    let is_refused = async || ask(&world, &key, &body).await.status == 401;
    assert!(unslide_world::wait_until(is_refused).await);
    world.execute("UPDATE keys SET expires_at = now() - interval '31 days' WHERE kind = 'names'").await;
    assert_eq!(unslide_store::keys::purge_keys(&world.store).await.unwrap(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_key_leaves_no_trace_in_answers_and_metrics() {
    let world = SymbolWorld::start().await;
    let (_, key) = names_key(&world, "acme", None).await;
    let mut answers = vec![
        ask(&world, &key, &json!({"memoryMap": [], "stacks": []})).await,
        ask(&world, &key, &json!([])).await,
        ask(&world, &format!("{key}0"), &json!({})).await,
    ];
    for path in ["", "/symbolicate/v4", "/symbolicate/v5", "/app/x/app.sym", "/app/x/app.txt"] {
        answers.push(world.get(&format!("/symbols/{key}{path}"), "").await);
    }
    for answer in &answers {
        let headers = format!("{:?}", answer.headers);
        assert!(!answer.text.contains(&key) && !headers.contains(&key), "{headers} {}", answer.text);
    }
    let page = world.host.process_metrics().render_page().unwrap();
    assert!(page.contains("/symbols/{key}/symbolicate/v5") && !page.contains(&key), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn the_command_line_makes_a_key_for_one_app_or_all() {
    let world = SymbolWorld::start().await;
    let tenant = tenant_id("acme");
    let make = async |entropy: u8, apps: &[&str]| {
        let apps = apps.iter().map(ToString::to_string).collect();
        let new = NewKey { name: "team".to_owned(), scopes: Vec::new(), apps, expires_at: None };
        let new = NAMES_KEYS.check_new(new, world.store.now())?;
        let made = create_key_of_kind(&world.store, &tenant, &NAMES_KEYS, &new, &[entropy; 30]).await;
        Ok::<String, String>(made.unwrap().reveal().to_owned())
    };
    let key = make(1, &[APP]).await.unwrap();
    ask(&world, &key, &json!({"memoryMap": [], "stacks": []})).await.expect_status(200);
    make(2, &[]).await.unwrap();
    assert!(make(3, &["a", "b"]).await.unwrap_err().contains("one app"));
    assert_eq!(world.number("SELECT count(*) FROM keys WHERE kind = 'names' AND apps = '{}'").await, 1);
    world.stop().await;
}
