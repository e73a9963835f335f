//! The console with every feature: who sees what, and what a page does with texts of others.

use crate::reports::{A, crash, hang, store, store_late};
use crate::world::{Browser, World, encode_form, list_links, redirect_location};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use unslide_model::Scope;

const B: &str = "22222222-2222-2222-2222-222222222222";
/// Every page that needs no name of anything, with the scope that it needs.
pub const PAGES: [(&str, Scope); 19] = [
    ("/console", Scope::ReportsRead),
    ("/console/groups", Scope::ReportsRead),
    ("/console/reports", Scope::ReportsRead),
    ("/console/search", Scope::ReportsRead),
    ("/console/captures", Scope::ReportsRead),
    ("/console/versions", Scope::ReportsRead),
    ("/console/health", Scope::ReportsRead),
    ("/console/health/breakdown", Scope::ReportsRead),
    ("/console/health/figure", Scope::ReportsRead),
    ("/console/own-keys", Scope::ReportsRead),
    ("/console/symbols", Scope::SymbolsRead),
    ("/console/system-symbols", Scope::ReportsRead),
    ("/console/dead-letters", Scope::TenantAdmin),
    ("/console/alerts", Scope::TenantAdmin),
    ("/console/keys", Scope::TenantAdmin),
    ("/console/audit-log", Scope::TenantAdmin),
    ("/console/data", Scope::TenantAdmin),
    ("/console/settings", Scope::TenantAdmin),
    ("/console/tenants", Scope::Operator),
];

/// What the key of another tenant, or one for another app, gets for an id is what an id gets that nothing has.
#[tokio::test]
async fn an_id_in_the_search_field_opens_what_it_names() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let group = groups["items"][0]["id"].as_str().unwrap().to_owned();
    let capture = crate::signals::captures::analysed(&world, "acme", &key).await;
    let upload =
        world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe some bytes".to_vec()).await.expect_status(202);
    let upload = upload["id"].as_str().unwrap().to_owned();
    let image = crate::symbols::stored(&world, "acme").await.to_string();
    let named = [
        (A.to_owned(), format!("/console/reports/{A}")),
        (group.clone(), format!("/console/groups/{group}")),
        (capture.clone(), format!("/console/captures/{capture}")),
        (upload.clone(), format!("/console/symbols?upload={upload}")),
        (image.clone(), format!("/console/symbols?debug_id={image}")),
    ];
    let browser = Browser::signed_in(&world, &key).await;
    let other_app = world.key_for("acme", &Scope::ALL, Some("com.example.other")).await;
    let strangers = [world.create_master_key("umbrella").await, other_app];
    let fields = ["/console/search", "/console/groups", "/console/reports"];
    for (id, path) in &named {
        let bare = id.replace('-', "");
        let forms = [id.clone(), id.to_uppercase(), bare.clone(), format!(" {} ", bare.to_uppercase())];
        for (field, text) in fields.iter().flat_map(|field| forms.iter().map(move |text| (field, text))) {
            let answer = browser.get(&format!("{field}?{}", encode_form(&[("q", text)]))).await;
            assert_eq!(redirect_location(&answer), path, "{field} {text}");
        }
        assert_eq!(browser.get(path).await.status, StatusCode::OK, "{path}");
    }
    assert!(
        browser.fetch_page(&named[3].1).await.contains("No object was found in it"),
        "an upload is shown alone"
    );
    for stranger in &strangers {
        let stranger = Browser::signed_in(&world, stranger).await;
        for (id, field) in named.iter().flat_map(|(id, _)| fields.map(|field| (id, field))) {
            let page = |id: &str| format!("{field}?{}", encode_form(&[("q", id)]));
            let nothing = "00000000-1111-2222-3333-444444444444";
            let answer = stranger.fetch_page(&page(id)).await;
            assert!(
                answer.contains("The key has access to no report, group, upload"),
                "{field} {id}: {answer}"
            );
            assert_eq!(
                answer,
                stranger.fetch_page(&page(nothing)).await.replace(nothing, id),
                "{field} {id}"
            );
        }
    }
    // Without the scope of symbols there is no page of an upload.
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let reader = Browser::signed_in(&world, &reader).await;
    assert!(
        reader.fetch_page(&format!("/console/groups?q={upload}")).await.contains("other file with this id")
    );
    // Every page has the field.
    for (page, _) in PAGES {
        assert!(browser.fetch_page(page).await.contains("name=\"q\""), "{page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn stored_data_is_symbolicated_again_and_deleted_on_pages() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let browser = Browser::signed_in(&world, &key).await;
    assert!(browser.fetch_page("/console/data").await.contains("Reports are kept for 90 days"));
    let ask =
        async |fields: &[(&str, &str)]| browser.post("/console/data/reprocess", encode_form(fields)).await;
    let counted = ask(&[("version", "1.0"), ("count", "1")]).await;
    let page = browser.fetch_page(redirect_location(&counted)).await;
    assert!(page.contains("1 report matches.") && page.contains("value=\"1.0\""), "{page}");
    let refused = ask(&[("version", "")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let begun = ask(&[("version", "1.0"), ("from", "2026-01-01")]).await;
    let page = browser.fetch_page(redirect_location(&begun)).await;
    assert!(page.contains("1 report matches, ") && page.contains("http-equiv=\"refresh\""), "{page}");
    let image = crate::symbols::stored(&world, "acme").await;
    let symbols = format!("/console/symbols/{image}/delete");
    assert!(browser.fetch_page("/console/symbols").await.contains(&symbols));
    assert_eq!(redirect_location(&browser.post(&symbols, String::new()).await), "/console/symbols");
    assert_eq!(browser.post(&symbols, String::new()).await.status, StatusCode::NOT_FOUND);
    let report = format!("/console/reports/{A}");
    assert!(browser.fetch_page(&report).await.contains(&format!("{report}/delete")));
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let reader = Browser::signed_in(&world, &reader).await;
    assert!(!reader.fetch_page(&report).await.contains(&format!("{report}/delete")));
    assert_eq!(reader.post(&format!("{report}/delete"), String::new()).await.status, StatusCode::FORBIDDEN);
    let deleted = browser.post(&format!("{report}/delete"), encode_form(&[("variant", "0")])).await;
    assert_eq!(redirect_location(&deleted), "/console/reports");
    assert_eq!(browser.get(&report).await.status, StatusCode::NOT_FOUND);
    world.stop().await;
}

/// What a user can mend is no matter for the operator.
#[tokio::test]
async fn a_form_that_is_refused_names_the_field_and_no_operator() {
    let world = World::start().await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let key = world.create_master_key("acme").await;
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let merge = format!("/console/groups/{}/merge", groups["items"][0]["id"].as_str().unwrap());
    let alert = |address: &str| {
        encode_form(&[
            ("name", "n"),
            ("condition", "new_group"),
            ("channel", "webhook"),
            ("address", address),
        ])
    };
    for (path, body, field) in [
        ("/console/keys", encode_form(&[("name", "n")]), "scopes"),
        ("/console/alerts", alert("nowhere"), "address"),
        ("/console/alerts", encode_form(&[("name", "n"), ("condition", "none")]), "condition"),
        (merge.as_str(), encode_form(&[("group", "x")]), "group"),
    ] {
        let answer = browser.post(path, body).await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.status);
        assert!(answer.text.contains(field), "{path} names {field}: {}", answer.text);
        assert!(!answer.text.contains("operator") && !answer.text.contains(".."), "{path}: {}", answer.text);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_page_names_the_scope_that_is_missing() {
    let world = World::start().await;
    for (path, scope) in PAGES {
        let others: Vec<Scope> =
            Scope::ALL.into_iter().filter(|other| *other != scope && *other != Scope::Operator).collect();
        let browser = Browser::signed_in(&world, &world.create_key("acme", &others).await).await;
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
        assert!(page.text.contains(&format!("needs the scope {scope}")), "{}", page.text);
        assert!(page.text.contains("Sign out"), "the session is still there");
        let browser = Browser::signed_in(&world, &world.create_key("acme", &[scope]).await).await;
        assert_eq!(browser.get(path).await.status, StatusCode::OK, "{path}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_page_of_versions_health_says_what_became_worse() {
    let world = World::start().await;
    crate::signals::metrics::store_two_versions(&world, "acme").await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.get("/console/health?app=com.example.shop").await;
    for words in [
        "compared with 1.0",
        "Launch",
        "p95",
        "1.7 s",
        "1.1 is worse than 1.0 in",
        "worse, was",
        "api.example.com",
        "140 ms",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    assert!(!page.text.contains("Energy"), "nothing was sent of it");
    let path = "/console/health/breakdown?app=com.example.shop&version=1.1&metric=launch_time";
    assert!(list_links(&page.text).iter().any(|link| link == path), "{}", page.text);
    let breakdown = browser.get(path).await;
    for words in ["By device", "iPhone16,1", "By system", "iOS 26.1", "p95", "1.7 s", "200 values"] {
        assert!(breakdown.text.contains(words), "{words}: {}", breakdown.text);
    }
    let chosen = browser.get("/console/health?app=com.example.shop&compare_with=1.1").await;
    assert!(
        chosen.text.contains("each compared with 1.1") && chosen.text.contains("1.0 is not worse than 1.1")
    );
    let hours = "/console/health/figure?app=com.example.shop&figure=launch_time_p95&version=1.1";
    assert!(list_links(&page.text).iter().any(|link| link == hours), "{}", page.text);
    let by_hour = browser.get(hours).await;
    for words in ["The last 48 hours", "launch_time_p95 over time", ":00 UTC", "1.8 s", "200 observations"] {
        assert!(by_hour.text.contains(words), "{words}: {}", by_hour.text);
    }
    let by_day = browser.get(&format!("{hours}&by=day")).await;
    assert!(by_day.text.contains("The last 28 days") && by_day.text.contains("1.8 s"), "{}", by_day.text);
    let none = browser.get(&hours.replace("1.1", "9.9")).await;
    assert!(none.text.contains("Nothing of this figure came in the last 48 hours"), "{}", none.text);
    let unknown = browser.get(&hours.replace("launch_time_p95", "weight_p95")).await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    let failed = browser.get(&path.replace("launch_time", "request_failures")).await;
    assert!(failed.text.contains("0.00 %"), "{}", failed.text);
    assert_eq!(browser.get(&path.replace("launch_time", "weight")).await.status, StatusCode::BAD_REQUEST);
    let other = browser.get(&path.replace("1.1", "9.9")).await;
    assert!(other.text.contains("No values of this metric"), "{}", other.text);
    let nothing = browser.get("/console/health?app=com.example.bank").await;
    assert!(
        nothing.text.contains("There are no session events and no metrics of these days"),
        "{}",
        nothing.text
    );
    world.stop().await;
}

#[tokio::test]
async fn the_page_of_a_version_has_its_verdict_what_is_new_and_what_came_back() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    crate::signals::metrics::store_two_versions(&world, "acme").await;
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let back = format!("/v1/groups/{}", groups["items"][0]["id"].as_str().unwrap());
    let resolve = json!({"status": "resolved", "resolved_in": "1.0"}).to_string();
    world.send(world.request(Method::PATCH, &back, &key).body(resolve)).await.expect_status(200);
    store(&world, "acme", &crash("44444444-4444-4444-4444-444444444444", "1.1"), 1, now).await;
    store(&world, "acme", &hang(B, "1.1", 900), 1, now).await;
    let path = "/console/version?app=com.example.shop&version=1.1";
    let browser = Browser::signed_in(&world, &key).await;
    let versions = browser.fetch_page("/console/versions?app=com.example.shop").await;
    assert!(list_links(&versions).contains(path), "{versions}");
    let page = browser.fetch_page(path).await;
    for words in [
        "1.1 is worse than 1.0 in",
        "worse, was",
        "All figures of all versions",
        "regressed in 1.1",
        "Upload command",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let (_, came_back) = page.split_once("Came back in this version").unwrap();
    let (came_back, new) = came_back.split_once("New in this version").unwrap();
    let (new, _) = new.split_once("Growing in this version").unwrap();
    let hangs = world.get("/v1/groups?kind=hang", &key).await.expect_status(200);
    let hang = hangs["items"][0]["id"].as_str().unwrap();
    let crash = back.strip_prefix("/v1/groups/").unwrap();
    assert!(came_back.contains(crash) && !came_back.contains(hang), "{page}");
    assert!(new.contains(hang) && !new.contains(crash), "{page}");
    // The list of groups has both.
    let listed = world.get("/v1/groups?new_in=1.1&version=1.1", &key).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    let none = browser.get("/console/version?app=com.example.shop&version=9.9").await;
    assert_eq!(redirect_location(&none), "/console/versions?app=com.example.shop");
    world.stop().await;
}

/// Follows every link of the console from its first page on: each page with its path.
pub async fn crawl(browser: &Browser<'_>) -> Vec<(String, String)> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut waiting: Vec<String> = vec!["/console".to_owned()];
    let mut pages = Vec::new();
    while let Some(path) = waiting.pop() {
        let other = !path.starts_with("/console") || path.starts_with("/console/assets/");
        // Only forms lead there.
        let form = [
            "/sign-out",
            "/revoke",
            "/delete",
            "/replay",
            "/upload",
            "/update",
            "/comment",
            "/change",
            "/merge",
            "/split",
            "/trial",
            "/reprocess",
            "/blocks",
            "-rules",
            "/person-search",
            "/mute",
            "/unmute",
            "/on",
            "/off",
            "/test",
            "/receiver",
            "/rule",
            "/changes",
            "/views",
            "/send",
            "/activate",
            "/retire",
            "/close",
            "/acknowledge",
            "/erase",
            // Without an app it leads to the list.
            "/version",
            // Without a group nothing is compared.
            "/commonalities",
        ]
        .iter()
        .any(|end| path.ends_with(end));
        let form = form || path.starts_with("/console/groups/views/");
        if form || !seen.insert(path.clone()) {
            continue;
        }
        let answer = if other { browser.world.get(&path, "").await } else { browser.get(&path).await };
        assert!(answer.status.is_success(), "{path} answers {}: {}", answer.status, answer.text);
        if !other && !path.ends_with("/json") && !path.contains("/text") {
            waiting.extend(list_links(&answer.text));
            pages.push((path, answer.text));
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
    pages
}

const SECRET: &str = "umbrellas-own";

#[tokio::test]
async fn a_session_sees_its_tenants_things_and_every_link_answers() {
    let world = World::start().await;
    let now = world.host.clock.now();
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    store(&world, "acme", &hang("33333333-3333-3333-3333-333333333333", "1.0", 900), 1, now).await;
    let mut other = crash(B, SECRET);
    other["system"]["CFBundleIdentifier"] = SECRET.into();
    store(&world, "umbrella", &other, 1, now).await;
    crate::symbols::stored(&world, "acme").await;
    let letter = crate::dead_letters::letter(&world, Some("umbrella"), SECRET, None, Some(b"{")).await;
    crate::dead_letters::letter(&world, Some("acme"), "not_json", None, Some(b"{")).await;
    let group = world.get("/v1/groups", &world.create_master_key("umbrella").await).await.expect_status(200);
    let group = group["items"][0]["id"].as_str().unwrap().to_owned();
    let acme = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let pages = crawl(&acme).await;
    for wanted in ["/console/groups/", "/console/reports/", "/explain", "/flame"] {
        assert!(pages.iter().any(|(path, _)| path.contains(wanted)), "{wanted}");
    }
    for (path, page) in &pages {
        assert!(!page.contains(SECRET) && !page.contains(B), "{path}: {page}");
    }
    for foreign in [
        format!("/console/dead-letters/{letter}"),
        format!("/console/groups/{group}"),
        format!("/console/reports/{B}"),
        format!("/console/reports/{B}/json"),
        format!("/console/reports/{B}/text"),
        format!("/console/reports/{B}/explain"),
        format!("/console/reports/{B}/flame"),
        format!("/console/groups/{group}/flame"),
    ] {
        assert_eq!(acme.get(&foreign).await.status, StatusCode::NOT_FOUND, "{foreign}");
    }
    let umbrella = Browser::signed_in(&world, &world.create_master_key("umbrella").await).await;
    assert!(umbrella.get("/console").await.text.contains(SECRET));
    let hours = acme.get("/console?days=1").await.text;
    assert!(hours.contains("Crashes by hour") && hours.contains("0 in the 24 hours before"), "{hours}");
    assert!(!hours.contains(SECRET) && umbrella.get("/console?days=1").await.text.contains(SECRET));
    // A key for one app has the pages of that app.
    let only = world.key_for("umbrella", &[Scope::ReportsRead], Some("com.example.other")).await;
    let only = Browser::signed_in(&world, &only).await;
    for path in ["/console", "/console/groups", "/console/reports", "/console/versions"] {
        assert!(!only.get(path).await.text.contains(SECRET), "{path}");
    }
    assert_eq!(only.get(&format!("/console/reports/{B}")).await.status, StatusCode::NOT_FOUND);
    let asked = only.get(&format!("/console/groups?app={SECRET}")).await;
    assert_eq!(asked.status, StatusCode::FORBIDDEN);
    world.stop().await;
}

#[tokio::test]
async fn a_key_is_made_and_shown_once_and_revoked_with_what_it_made() {
    let world = World::start().await;
    let scopes = [Scope::TenantAdmin, Scope::ReportsRead];
    let browser = Browser::signed_in(&world, &world.create_key("acme", &scopes).await).await;
    let path = "/console/keys";
    let page = browser.fetch_page(path).await;
    assert!(page.contains("value=\"tenant:admin\"") && !page.contains("value=\"symbols:write\""), "{page}");
    let new = [("name", "<b>pipeline"), ("scope", "tenant:admin"), ("scope", "reports:read")];
    let ends = [("ends", "2999-12-31")];
    let made = browser.post(path, encode_form(&[&new[..], &ends].concat())).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    assert!(made.text.contains("&#60;b&#62;pipeline") && made.text.contains("2999-12-31"), "{}", made.text);
    let text = made.text.split("data-copy=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    world.get("/v1/reports", &text).await.expect_status(200);
    let below = json!({"name": "below", "scopes": ["reports:read"], "expires_at": "2999-12-30T00:00:00Z"});
    let below = world.post_json("/v1/keys", &text, &below).await.expect_status(201);
    let listed = browser.fetch_page(path).await;
    assert!(!listed.contains(&text), "{listed}");
    for wanted in ["the command line", "with the 1 key that it made", "&#60;b&#62;pipeline "] {
        assert!(listed.contains(wanted), "{wanted}: {listed}");
    }
    for (wrong, status) in [
        (&[("name", "x"), ("preset", "pipeline")][..], StatusCode::FORBIDDEN),
        (&[("name", "x"), ("preset", "everything")], StatusCode::BAD_REQUEST),
        (&[("name", "x"), ("scope", "symbols:write")], StatusCode::FORBIDDEN),
        (&[("name", "x"), ("scope", "operator")], StatusCode::FORBIDDEN),
        (&[("name", "x"), ("scope", "everything")], StatusCode::BAD_REQUEST),
        (&[("name", "x")], StatusCode::BAD_REQUEST),
        (&[("name", "x"), ("scope", "reports:read"), ("ends", "soon")], StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(browser.post(path, encode_form(wrong)).await.status, status, "{wrong:?}");
    }
    let keys = world.get("/v1/keys", &text).await.expect_status(200);
    let is_made = |key: &&Value| key["name"] == "<b>pipeline";
    let id = keys["items"].as_array().unwrap().iter().find(is_made).unwrap()["id"].clone();
    let revoke = format!("{path}/{}/revoke", id.as_str().unwrap());
    assert_eq!(redirect_location(&browser.post(&revoke, encode_form(&[("cascade", "true")])).await), path);
    world.get("/v1/reports", below["text"].as_str().unwrap()).await.expect_problem(401, "unauthorized");
    world.stop().await;
}

/// The first address of a page that begins so.
fn link_to(page: &str, begin: &str) -> String {
    list_links(page)
        .into_iter()
        .find(|link| link.starts_with(begin))
        .unwrap_or_else(|| panic!("{begin}: {page}"))
}

#[tokio::test]
async fn a_groups_devices_and_systems_lead_to_their_reports() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    for (id, model, version) in [(A, "iPhone16,1", "18.3.1"), (B, "iPad8,1", "17.0 & 1")] {
        let mut report = crash(id, "1.0");
        report["system"]["machine"] = model.into();
        report["system"]["system_name"] = "iOS".into();
        report["system"]["system_version"] = version.into();
        store(&world, "acme", &report, 1, now).await;
    }
    let found = world.get("/v1/groups", &key).await.expect_status(200);
    let id = found["items"][0]["id"].as_str().unwrap();
    let browser = Browser::signed_in(&world, &key).await;
    // Both reports name one device.
    let overview = browser.fetch_page("/console").await;
    assert!(overview.contains("<dt>Newly affected devices</dt><dd>1</dd>"), "{overview}");
    let group = browser.fetch_page(&format!("/console/groups/{id}")).await;
    let list = format!("/console/reports?group={id}");
    for (filter, field, there, gone) in [
        ("model=iPhone16", "value=\"iPhone16,1\"", A, B),
        ("os_version=iOS+17", "value=\"iOS 17.0 &#38; 1\"", B, A),
    ] {
        let page = browser.fetch_page(&link_to(&group, &format!("{list}&{filter}"))).await;
        let report = |id: &str| format!("/console/reports/{id}");
        assert!(page.contains(&report(there)) && !page.contains(&report(gone)), "{filter}: {page}");
        assert!(page.contains(field), "{field}: {page}");
        assert!(page.contains(&format!("group {id}")), "the filter of the group: {page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_report_has_its_context_and_a_group_its_shares() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    for (id, plan) in [(A, "pro"), (B, "<b>free</b>")] {
        let mut report = crash(id, "1.0");
        report["user"] = json!({"plan": plan, "tracker": id});
        report["system"]["machine"] = "iPhone16,1".into();
        if id == A {
            report["user"]["breadcrumbs"] = json!([{"timestamp": 1_700_000_000, "category": "http",
                "level": "error", "message": "GET /cart <script>"}, "opened the cart"]);
            report["debug"] = json!({"console_log": ["first line", "last <line>"]});
            report["system"]["application_stats"] = json!({"application_in_foreground": false});
            report["system"]["freeStorage"] = json!(52_428_800);
        }
        store(&world, "acme", &report, 1, now).await;
    }
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.fetch_page(&format!("/console/reports/{A}")).await;
    for shown in [
        "<td>plan</td><td class=\"mono\">pro</td>",
        "2023-11-14 22:13:20",
        "GET /cart &#60;script&#62;",
        "opened the cart",
        "in the background",
        "<dt>Free storage</dt><dd>50.0 MiB</dd>",
        "first line\nlast &#60;line&#62;",
        "iPhone 15 Pro (iPhone16,1)",
        "<dt>Frames of the app</dt><dd>0 of 3 frames symbolicated</dd>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let bare = browser.fetch_page(&format!("/console/reports/{B}")).await;
    assert!(!bare.contains("Breadcrumbs") && !bare.contains("State of the app"), "{bare}");
    let found = world.get("/v1/groups", &key).await.expect_status(200);
    let group = format!("/console/groups/{}", found["items"][0]["id"].as_str().unwrap());
    let page = browser.fetch_page(&group).await;
    for shown in
        ["From the newest 2 reports", "In the background", "100 %", "2 of 2 reports", "&#60;b&#62;free"]
    {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let one = browser.fetch_page(&format!("{group}?key1=tracker&key2=gone")).await;
    assert!(one.contains(&format!("key=tracker%3D{A}\">{A}</a>")) && !one.contains(">pro</a>"), "{one}");
    let lists = browser.fetch_page("/console/reports?symbols_missing=true").await;
    assert!(lists.contains("iPhone 15 Pro") && lists.contains("a dSYM is missing"), "{lists}");
    assert!(browser.fetch_page("/console/reports?symbols_missing=false").await.contains("No report matches"));
    world.stop().await;
}

#[tokio::test]
async fn a_letter_shows_its_headers_and_the_beginning_of_its_value() {
    let world = World::start().await;
    let value = b"<script>alert(1)</script>\nsecond line";
    let text =
        crate::dead_letters::letter(&world, Some("acme"), "not_json", Some(b"a key"), Some(value)).await;
    let binary =
        crate::dead_letters::letter(&world, Some("acme"), "not_json", None, Some(b"\x1f\x8b\xff")).await;
    let empty = crate::dead_letters::letter(&world, Some("acme"), "not_json", None, None).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let list = browser.fetch_page("/console/dead-letters").await;
    let path = |id: &str| format!("/console/dead-letters/{id}");
    assert!(
        list.contains(&format!("data-part=\"{}\"", path(&text))) && !list.contains("second line"),
        "{list}"
    );
    let page = browser.fetch_page(&path(&text)).await;
    let escaped = "&#60;script&#62;alert(1)&#60;/script&#62;\nsecond line";
    for wanted in [escaped, "not_json", "a key", "Value: 37 B", "/replay"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(browser.fetch_page(&path(&binary)).await.contains("1f 8b ff"));
    assert!(browser.fetch_page(&path(&empty)).await.contains("The record has no value."));
    assert_eq!(browser.get(&path("none")).await.status, StatusCode::BAD_REQUEST);
    world.stop().await;
}

#[tokio::test]
async fn a_letter_is_replayed_by_its_button() {
    let world = World::start().await;
    let letter = crate::dead_letters::letter(&world, Some("acme"), "not_json", None, Some(b"{")).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    assert!(browser.get("/console/dead-letters").await.text.contains(&format!("{letter}/replay")));
    let replayed = browser.post(&format!("/console/dead-letters/{letter}/replay"), String::new()).await;
    assert_eq!(redirect_location(&replayed), "/console/dead-letters");
    assert_eq!(world.read_sent_records(1).await.len(), 1);
    let again = browser.post(&format!("/console/dead-letters/{letter}/replay"), String::new()).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(again.text.contains("<h1>"), "a page: {}", again.text);
    world.stop().await;
}

#[tokio::test]
async fn a_thread_that_a_page_has_no_room_for_has_a_page_of_its_own() {
    let world = World::start().await;
    let id = "0000000a-1111-1111-1111-111111111111";
    let mut large = crash(id, "large");
    let thread = large["crash"]["threads"][0].clone();
    let frames = vec![thread["backtrace"]["contents"][0].clone(); 200];
    let threads = (0..40).map(|index| {
        let mut thread = thread.clone();
        thread["index"] = index.into();
        thread["crashed"] = (index == 7).into();
        thread["backtrace"]["contents"] = frames.clone().into();
        thread
    });
    large["crash"]["threads"] = threads.collect();
    store(&world, "acme", &large, 1, world.host.clock.now()).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.get(&format!("/console/reports/{id}")).await.text;
    assert!(page.find("Thread 7").unwrap() < page.find("Thread 0").unwrap(), "the crash first");
    assert_eq!(page.matches("data-part=").count(), 15, "25 threads of 200 frames fit");
    assert!(!page.contains("are left out here"));
    let last = format!("/console/reports/{id}/threads/39");
    assert!(page.contains(&last));
    let frames = |page: &str| page.matches("call-frame").count();
    assert_eq!(frames(&browser.get(&last).await.text), frames(&page) / 25);
    let none = browser.get(&format!("/console/reports/{id}/threads/40")).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    world.stop().await;
}

#[tokio::test]
async fn what_was_sampled_before_an_end_is_never_shown_as_its_cause() {
    let world = World::start().await;
    let id = "0000000b-1111-1111-1111-111111111111";
    let mut ended = crash(id, "ended");
    let frames = ended["crash"]["threads"][0]["backtrace"]["contents"].clone();
    ended.as_object_mut().unwrap().remove("crash");
    ended["crash_type"] = "foom_crash".into();
    ended["system"]["app_memory"] = json!({"memory_footprint": 92, "memory_limit": 100});
    ended["stack_oom"] = json!([{"frames": frames, "size": 1024, "count": 1},
        {"frames": frames, "size": "4096", "count": 2}]);
    store(&world, "acme", &ended, 1, world.host.clock.now()).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.get(&format!("/console/reports/{id}")).await.text;
    for shown in ["Last sampled stack", "not why it ended", "Other sampled stacks"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let verdict = "Ended: out of memory in the foreground (rule: crash type; confidence: medium; footprint: 92 % of the limit)";
    assert!(page.contains(verdict), "{page}");
    assert!(
        page.find("4096 bytes in 2").unwrap() < page.find("1024 bytes in 1").unwrap(),
        "the largest first"
    );
    assert!(!page.contains("class=\"tag bad\">crashed") && !page.contains("Copy crashed thread"));
    let page = browser.get(&format!("/console/reports/{id}/explain?thread=0")).await.text;
    assert!(page.contains("Last sampled stack"), "{page}");
    let text = browser.get(&format!("/console/reports/{id}/text")).await.text;
    assert!(
        text.contains("Last Sampled Stack (not the cause): 4096 bytes in 2 allocations")
            && text.contains(verdict)
    );
    let groups = world.get("/v1/groups?kind=out_of_memory", &key).await.expect_status(200);
    assert_eq!(groups["items"][0]["title"], "Out of memory in the foreground");
    for group in groups["items"].as_array().unwrap() {
        let page = browser.get(&format!("/console/groups/{}", group["id"].as_str().unwrap())).await.text;
        assert!(!page.contains("class=\"stack\""), "{page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn where_the_time_went_is_a_picture_and_a_text_for_a_report_and_for_its_group() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    let id = |number: u8| format!("0000000{number}-1111-1111-1111-111111111111");
    for (number, version, millis) in [(1, "1.0", 900), (2, "1.0", 2_300), (3, "2.0", 150_000)] {
        let mut hang = hang(&id(number), version, millis);
        hang["report"]["sampled"] = json!(0.5);
        store(&world, "acme", &hang, 1, now).await;
    }
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    let browser = Browser::signed_in(&world, &key).await;
    let report = browser.get(&format!("/console/reports/{}", id(2))).await.text;
    assert!(report.contains("took 2.3 s") && report.contains(&format!("/console/reports/{}/flame", id(2))));
    let page = browser.get(&format!("/console/reports/{}/flame", id(2))).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    for wanted in [
        "10 samples",
        "Shop + 0x2000 (Shop, app) \u{2014} 8 samples, 80.0 %",
        "Top functions",
        "In the order of time",
        "920 ms \u{2013} 4.6 s",
        "<svg",
    ] {
        assert!(page.text.contains(wanted), "{wanted} in {}", page.text);
    }
    let found = world.get("/v1/groups?kind=hang", &key).await.expect_status(200);
    let group = format!("/console/groups/{}", found["items"][0]["id"].as_str().unwrap());
    let shown = browser.get(&group).await.text;
    for wanted in ["How long it took", "2.3 s", "2 min 30 s", &format!("{group}/flame")] {
        assert!(shown.contains(wanted), "{wanted} in {shown}");
    }
    // Counts and charts are scaled, the samples of a flame graph are not.
    let estimated = "Estimated from a sample.";
    assert!(shown.contains("about 6 reports") && shown.contains(estimated), "{shown}");
    let list = browser.get("/console/groups?kind=hang").await.text;
    assert!(list.contains(estimated), "{list}");
    let merged = browser.get(&format!("{group}/flame")).await.text;
    assert!(merged.contains("30 samples from 3 reports") && merged.contains("compared with"), "{merged}");
    let one = browser.get(&format!("{group}/flame?version=1.0")).await.text;
    assert!(one.contains("20 samples from 2 reports of 1.0"), "{one}");
    let compared = browser.get(&format!("{group}/flame?version=1.0&compare=2.0")).await.text;
    for wanted in ["16 before, 8 after: 0.0 percentage points", "1.0 \u{2192} 2.0", "No function's share"] {
        assert!(compared.contains(wanted), "{wanted} in {compared}");
    }
    // A crash was not sampled.
    let crash = world.get("/v1/groups?kind=crash", &key).await.expect_status(200);
    let crash = format!("/console/groups/{}", crash["items"][0]["id"].as_str().unwrap());
    for none in [format!("/console/reports/{A}/flame"), format!("{crash}/flame")] {
        assert_eq!(browser.get(&none).await.status, StatusCode::NOT_FOUND, "{none}");
    }
    let crash = browser.get(&crash).await.text;
    assert!(!crash.contains("/flame") && !crash.contains(estimated), "{crash}");
    world.stop().await;
}

#[tokio::test]
async fn a_memory_warning_leads_to_what_was_captured_in_its_run() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    let run = "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B10";
    let mut warning = crash(A, "1.0");
    warning["crash"]["error"] =
        json!({"type": "user", "user_reported": {"backtrace": ["__MEMORY_LEVEL__NON_FATAL__"]}});
    store(&world, "acme", &warning, 1, now).await;
    store(&world, "acme", &crash(B, "1.0"), 1, now).await;
    let mut database = world.connect().await;
    sqlx::query("UPDATE reports SET run_id = $1::text::uuid").bind(run).execute(&mut database).await.unwrap();
    sqlx::Connection::close(database).await.unwrap();
    let mut sent = Vec::new();
    for (query, body) in [
        (
            format!("session_id={run}"),
            "main;draw 1
",
        ),
        (
            format!("session_id={}", run.to_lowercase()),
            "main;draw 2
",
        ),
        (
            "session_id=another".to_owned(),
            "main;draw 3
",
        ),
    ] {
        let path = format!("/v1/captures?app=com.example.shop&kind=profile&{query}");
        let capture = world.post(&path, &key, body).await.expect_status(202);
        sent.push(format!("/console/captures/{}", capture["id"].as_str().unwrap()));
    }
    let browser = Browser::signed_in(&world, &key).await;
    let page = list_links(&browser.fetch_page(&format!("/console/reports/{A}")).await);
    let named: Vec<bool> = sent.iter().map(|capture| page.contains(capture)).collect();
    assert_eq!(named, [true, true, false], "{page:?}");
    assert!(!browser.fetch_page(&format!("/console/reports/{B}")).await.contains("Captures of this run"));
    world.stop().await;
}

#[tokio::test]
async fn a_jetsam_event_shows_its_processes_and_what_it_says_of_limits() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let mut event = json!({"report": {"id": B}, "largestProcess": "Maps", "product": "iPhone16,1",
        "build": "iPhone OS 18.3.1 (22D72)", "memoryStatus": {"pageSize": 16_384, "compressorSize": 64,
        "memoryPages": {"free": 128, "<b>wired": 192}},
        "system": {"CFBundleIdentifier": "com.example.shop", "process_name": "Shop"}});
    event["processes"] = json!([
        {"name": "Maps", "rpages": 128_000, "states": ["suspended"]},
        {"name": "Maps", "rpages": 64, "states": []},
        {"name": "Shop", "rpages": 131_072, "lifetimeMax": 140_000, "states": ["frontmost"], "reason": "per-process-limit"},
        {"name": "<script>alert(1)</script>", "rpages": 640, "states": []}]);
    store(&world, "acme", &event, 1, world.host.clock.now()).await;
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.fetch_page(&format!("/console/reports/{B}")).await;
    for wanted in [
        "Memory of the device",
        "per-process-limit",
        "frontmost",
        "2.0 GiB",
        "Maps</span> <span class=\"tag\">largest",
    ] {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
    assert_eq!(page.matches("<span class=\"tag\">largest").count(), 1, "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<b>wired"), "{page}");
    let found = world.get("/v1/apps/com.example.shop/memory-limits", &key).await.expect_status(200);
    let limit = &found["limits"][0];
    assert_eq!((&limit["model"], &limit["os_version"]), (&json!("iPhone16,1"), &json!("18.3.1")));
    assert_eq!((&limit["median"], &limit["reports"]), (&json!(2_u64 << 30), &json!(1)));
    let health = browser.fetch_page("/console/health?app=com.example.shop").await;
    assert!(health.contains("Memory limits") && health.contains("2.0 GiB"), "{health}");
    world.get("/v1/apps/com.example.other/memory-limits", &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn hostile_names_are_text_in_a_flame_graph() {
    let world = World::start().await;
    let mut report = hang(B, "1.0", 900);
    let frames = report["crash"]["error"]["profile"]["frames"].as_array_mut().unwrap();
    for (frame, name) in frames.iter_mut().zip(hostile()) {
        *frame = json!({"instruction_addr": 1, "symbol_name": name});
    }
    store(&world, "acme", &report, 1, world.host.clock.now()).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.get(&format!("/console/reports/{B}/flame")).await.text;
    assert!(page.contains("<svg"), "{page}");
    for name in hostile() {
        assert!(!page.contains(&name), "{name} in {page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_form_uploads_symbols() {
    let world = World::start().await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let part = reqwest::multipart::Part::bytes(b"\xcf\xfa\xed\xfe some bytes".to_vec()).file_name("Shop");
    let form = reqwest::multipart::Form::new().part("file", part);
    let request =
        browser.request(Method::POST, "/console/symbols/upload").header("sec-fetch-site", "same-origin");
    assert_eq!(redirect_location(&browser.send(request.multipart(form)).await), "/console/symbols");
    let page = browser.get("/console/symbols").await;
    assert!(page.text.contains("Shop") && page.text.contains("queued"), "{}", page.text);
    world.stop().await;
}

/// Texts that would be more than texts, where a page did not escape them.
fn hostile() -> [String; 4] {
    [
        "<script>alert(1)</script>".to_owned(),
        "\" onmouseover=\"alert(1)' x='".to_owned(),
        "a\u{202e}b\u{2066}c\u{7}d\u{1b}[31m".to_owned(),
        format!("<img src=x>{}", "A".repeat(490)),
    ]
}

fn named(id: &str, text: &str) -> Value {
    let mut crash = crash(id, text);
    crash["system"]["CFBundleIdentifier"] = text.into();
    crash["system"]["CFBundleVersion"] = text.into();
    crash["binary_images"][0]["name"] = format!("/x/{text}").into();
    crash["crash"]["error"] = json!({"type": "nsexception", "reason": text, "nsexception": {"name": text}});
    crash["crash"]["threads"][0]["name"] = text.into();
    let frame = &mut crash["crash"]["threads"][0]["backtrace"]["contents"][0];
    frame["object_name"] = text.into();
    frame["symbol_name"] = text.into();
    frame["symbol_addr"] = 0x1_0000_0f00_u64.into();
    crash
}

#[tokio::test]
async fn texts_of_others_stay_texts() {
    let world = World::start().await;
    let now = world.host.clock.now();
    for (number, text) in hostile().iter().enumerate() {
        let id = format!("0000000{number}-1111-1111-1111-111111111111");
        store(&world, "acme", &named(&id, text), 1, now).await;
    }
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let mut shown = 0;
    // Files of CSV and Markdown are no pages: no browser reads their texts as HTML.
    let pages = crawl(&browser).await;
    let is_page = |path: &str| !path.starts_with("/console/export/") && !path.ends_with("/markdown");
    for (path, page) in pages.into_iter().filter(|(path, _)| is_page(path)) {
        shown += page.matches("&#60;script&#62;alert(1)").count();
        for raw in ["<script>alert", "<img", "\" onmouseover", "' x='"] {
            assert!(!page.contains(raw), "{raw} on {path}: {page}");
        }
        let obeyed = |c: char| {
            (c.is_control() && !matches!(c, '\n' | '\t'))
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let found: Vec<char> = page.chars().filter(|c| obeyed(*c)).collect();
        // The values of options and fields are sent back as they are.
        let hidden = ["new_in", "app", "version"]
            .map(|name| format!("<input type=\"hidden\" name=\"{name}\" value=\"a\u{202e}b"));
        let fields = ["<option value=\"a\u{202e}b", "<input name=\"app\" value=\"a\u{202e}b"];
        let sent_back = hidden.iter().map(String::as_str).chain(fields);
        let values: usize = sent_back.map(|start| page.matches(start).count()).sum();
        assert!(found.len() <= values * 4, "{found:?} on {path}");
    }
    assert!(shown > 10, "{shown}");
    let long = "A".repeat(2_000);
    let asked = browser.get(&format!("/console/groups?q={}", "%3Cscript%3E")).await;
    assert!(asked.status.is_success() && !asked.text.contains("<script>"), "{}", asked.text);
    assert_eq!(browser.get(&format!("/console/groups?q={long}")).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(browser.get("/console/groups?cursor=zz").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(browser.get("/console/nowhere").await.status, StatusCode::NOT_FOUND);
    world.stop().await;
}

#[tokio::test]
async fn a_form_says_where_the_source_code_is_and_the_audit_log_who_sent_it() {
    let world = World::start().await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let url = "https://git.example.com/{version}/{path}?\"><b>#L{line}";
    let settings = [("app", "com.example.shop"), ("source_url", url), ("source_root", "/ci/shop")];
    assert_eq!(
        redirect_location(&browser.post("/console/settings", encode_form(&settings)).await),
        "/console/settings"
    );
    let listed = browser.get("/console/settings").await.text;
    assert!(listed.contains("&#34;&#62;&#60;b&#62;#L{line}") && listed.contains("/ci/shop"), "{listed}");
    let script = [("app", "com.example.shop"), ("source_url", "javascript:alert({path})")];
    assert_eq!(browser.post("/console/settings", encode_form(&script)).await.status, StatusCode::BAD_REQUEST);
    let log = browser.get("/console/audit-log").await.text;
    assert!(log.contains("App settings changed") && !log.contains("<b>#L"), "{log}");
    assert!(browser.get(&format!("/console/reports/{A}")).await.status.is_success());
    world.stop().await;
}

/// A browser encodes each byte of it by three.
#[tokio::test]
async fn the_largest_grouping_rules_are_tried_and_set_by_forms() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let path = "/console/settings/grouping-rules";
    let text = format!("# {}", "ü".repeat(32_767));
    let tried = browser.post(&format!("{path}/trial"), encode_form(&[("text", &text)])).await;
    assert_eq!(tried.status, StatusCode::OK, "{}", tried.text);
    assert_eq!(
        redirect_location(&browser.post(path, encode_form(&[("text", &text)])).await),
        "/console/settings"
    );
    assert_eq!(world.get("/v1/grouping-rules", &key).await.expect_status(200)["rules"]["text"], text);
    let longer = browser.post(path, encode_form(&[("text", &text.repeat(2))])).await;
    assert_eq!(longer.status, StatusCode::PAYLOAD_TOO_LARGE);
    // The page has the rules before, to be restored.
    assert_eq!(
        redirect_location(&browser.post(path, encode_form(&[("text", "# none")])).await),
        "/console/settings"
    );
    let page = browser.fetch_page("/console/settings").await;
    assert!(page.contains("Restore them") && page.contains(&text), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_group_of_two_bugs_leads_to_a_rule_that_splits_it() {
    let world = World::start().await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let found = world.get("/v1/groups", &key).await.expect_status(200);
    let path = format!("/console/groups/{}", found["items"][0]["id"].as_str().unwrap());
    // While symbols are missing, no function is known.
    let page = browser.fetch_page(&path).await;
    assert!(page.contains("\"/console/settings#grouping-rules\""), "{page}");
    let mut database = world.connect().await;
    let better = "UPDATE groups SET provisional = false, culprit = 'Cart.total<b>(of:) (Cart.swift)'";
    sqlx::query(better).execute(&mut database).await.unwrap();
    sqlx::Connection::close(database).await.unwrap();
    let rule = link_to(&browser.fetch_page(&path).await, "/console/settings?rule=");
    let page = browser.fetch_page(&rule).await;
    let suggested = "ignore function Cart.total&#60;b&#62;(of:)</textarea>";
    assert!(page.contains(suggested) && page.contains("is a suggestion"), "{page}");
    // It comes before the rules that are set, of which the first that matches decides, once; nothing is set by a link.
    let text = "ignore image Shop\nignore function Cart.total<b>(of:)";
    let first = "ignore function Cart.total&#60;b&#62;(of:)\nignore image Shop</textarea>";
    for (set, expected) in [("ignore image Shop", first), (text, suggested)] {
        browser.post("/console/settings/grouping-rules", encode_form(&[("text", set)])).await;
        let page = browser.fetch_page(&rule).await;
        assert!(
            page.contains(expected) && page.contains("first rule is a suggestion") == (set != text),
            "{page}"
        );
        assert_eq!(world.get("/v1/grouping-rules", &key).await.expect_status(200)["rules"]["text"], set);
    }
    for other in ["hide%20image%20*", "ignore%20image%20*%0Aignore%20image%20a"] {
        assert!(
            !browser.fetch_page(&format!("/console/settings?rule={other}")).await.contains("is a suggestion")
        );
    }
    let one_app =
        world.key_for("acme", &[Scope::ReportsRead, Scope::GroupsWrite], Some("com.example.shop")).await;
    let page = Browser::signed_in(&world, &one_app).await.fetch_page(&path).await;
    assert!(page.contains("Split this group") && !page.contains("/console/settings?rule="), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_team_works_with_a_group_by_forms() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    let mut hang = crash(B, "1.0");
    hang["crash"]["error"]["type"] = "hang".into();
    store(&world, "acme", &hang, 1, now).await;
    let id = async |kind: &str| {
        let found = world.get(&format!("/v1/groups?kind={kind}"), &key).await.expect_status(200);
        found["items"][0]["id"].as_str().unwrap().to_owned()
    };
    let (group, other) = (id("crash").await, id("hang").await);
    let browser = Browser::signed_in(&world, &key).await;
    let path = format!("/console/groups/{group}");
    let page = browser.get(&path).await.text;
    for wanted in ["Resolve", "Ignore", "Assign", "No activity", "symbols missing", ">new<", &other] {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
    let send = async |action: &str, fields: &[(&str, &str)]| {
        let answer = browser.post(&format!("{path}/{action}"), encode_form(fields)).await;
        let to = redirect_location(&answer);
        assert!(to == format!("{path}#state") || to == format!("{path}#activity"), "{to}: {}", answer.text);
        browser.get(&path).await.text
    };
    let page = send("update", &[("assignee", "<Kim>")]).await;
    assert!(page.contains("assigned to &#60;Kim&#62;") && page.contains("<b>Robin</b>"), "{page}");
    assert!(
        page.contains("<option value=\"&#60;Kim&#62;\">") && page.contains("<option value=\"Robin\">"),
        "{page}"
    );
    let page = send("update", &[("undo", "1")]).await;
    assert!(!page.contains("assigned to &#60;Kim") && page.contains("took back the newest change"), "{page}");
    send("update", &[("undo", "1")]).await;
    let page = send("update", &[("ignored_until_next", "1")]).await;
    assert!(page.contains("ignored until a version after 1.0") && page.contains("Undo the newest"), "{page}");
    send("update", &[("undo", "1")]).await;
    let page = send("comment", &[("text", "one\r\n<b>two</b>")]).await;
    assert!(page.contains("one\n&#60;b&#62;two&#60;/b&#62;"), "{page}");
    let change = link_to(&page.replace(" action=", " href="), &format!("{path}/comments/"));
    let comment =
        change.strip_prefix(&path).unwrap().trim_start_matches('/').trim_end_matches("/change").to_owned();
    let page = send(&format!("{comment}/change"), &[("text", "three")]).await;
    assert!(
        page.contains("said (changed since)") && page.contains("three") && !page.contains("one\n"),
        "{page}"
    );
    let other_key = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    assert!(!other_key.get(&path).await.text.contains("/comments/"), "it is of another key");
    let page = send(&format!("{comment}/delete"), &[]).await;
    assert!(page.contains("deleted a comment") && !page.contains("three"), "{page}");
    let audit = browser.get("/console/audit-log").await.text;
    for action in ["group_comment.change", "group_comment.delete"] {
        assert!(audit.contains(action), "{audit}");
    }
    let pasted = format!("{}/console/groups/{other}", world.url);
    let page = send("merge", &[("group", &pasted), ("group", "")]).await;
    assert!(page.contains("Merged groups") && page.contains("2 reports"), "{page}");
    let merged = browser.get(&format!("/console/groups/{other}")).await.text;
    assert!(merged.contains("This group is merged") && !merged.contains("Reopen"), "{merged}");
    let page = send("split", &[("group", &other)]).await;
    assert!(!page.contains("Merged groups") && page.contains("split off a group"), "{page}");
    let page = send("update", &[("status", "resolved"), ("resolved_in", "2.0")]).await;
    assert!(page.contains("resolved in 2.0") && page.contains("Reopen"), "{page}");
    let listed =
        async |query: &str| browser.get(&format!("/console/groups{query}")).await.text.contains(&path);
    assert!(
        !listed("").await
            && listed("?status=resolved").await
            && listed("?status=all&assignee=%3CKim%3E").await
    );
    store(&world, "acme", &crash("55555555-5555-5555-5555-555555555555", "2.1"), 1, now).await;
    assert!(listed("").await);
    assert!(browser.get(&path).await.text.contains("regressed in 2.1"));
    let wrong = browser.post(&format!("{path}/merge"), encode_form(&[("group", "nothing")])).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    // Who may only look sees no forms, and can send none.
    let reader = Browser::signed_in(&world, &world.create_key("acme", &[Scope::ReportsRead]).await).await;
    let page = reader.get(&path).await.text;
    assert!(page.contains("Activity") && !page.contains("<textarea"), "{page}");
    let refused = reader.post(&format!("{path}/update"), encode_form(&[("status", "open")])).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    world.stop().await;
}

#[tokio::test]
async fn the_page_of_a_replaced_group_leads_to_the_group_that_took_its_reports() {
    let world = World::start().await;
    let (key, now) = (world.create_master_key("acme").await, world.host.clock.now());
    for id in [A, B] {
        store(&world, "acme", &crash(id, "1.0"), 1, now).await;
    }
    let found = world.get("/v1/groups", &key).await.expect_status(200);
    let old = found["items"][0]["id"].as_str().unwrap().to_owned();
    let browser = Browser::signed_in(&world, &key).await;
    let path = format!("/console/groups/{old}");
    let forms = async |action: &str, field: (&str, &str)| {
        let answer = browser.post(&format!("{path}/{action}"), encode_form(&[field])).await;
        redirect_location(&answer).split('#').next().unwrap().to_owned()
    };
    assert_eq!(forms("comment", ("text", "Who has the dSYM?")).await, path);
    for (id, fingerprint) in [(A, 7), (B, 8)] {
        store_late(&world, "acme", &crash(id, "1.0"), fingerprint).await;
    }
    let answer = browser.get(&path).await;
    assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT, "{}", answer.text);
    let new = answer.headers["location"].to_str().unwrap().to_owned();
    let page = browser.fetch_page(&new).await;
    for wanted in
        ["Who has the dSYM?", "in a group that this one replaced", "moved here from a group that is gone:"]
    {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
    assert!(!page.contains(&old), "{page}");
    // The other group has a link to it.
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let others = groups["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap());
    let other = others.map(|id| format!("/console/groups/{id}")).find(|path| *path != new).unwrap();
    let page = browser.fetch_page(&other).await;
    assert!(page.contains("Most of its reports, and what was said there") && page.contains(&new), "{page}");
    // A form of a page that was opened before.
    assert_eq!(forms("update", ("status", "resolved")).await, path);
    let group = world.get(&format!("/v1/groups/{old}"), &key).await.expect_status(200);
    assert_eq!(group["status"], "resolved");
    world.stop().await;
}
