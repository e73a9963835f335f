//! The commits of builds: sent, kept, compared in answers and on pages, and deleted.

use crate::changes::changes_world::{APP, ChangesWorld};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_cli::{ApiLogin, Client, CoreCommand, LoginSource, SourceCommit, UploadedBuilds};
use unslide_commands::changes::FEATURE;
use unslide_model::{DebugId, Scope, Secret};
use unslide_world::{Answer, Browser};

const BEFORE: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";
const AFTER: &str = "4d5e6f708192a3b4c5d6e7f80910a1b2c3d4e5f6";
const PAGE: &str = "https://github.com/example/shop/compare/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567...4d5e6f708192a3b4c5d6e7f80910a1b2c3d4e5f6";
const PATH: &str = "/v1/builds/commit";

impl ChangesWorld {
    async fn put_commit(&self, key: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, PATH, key).body(body.to_string())).await
    }

    /// Names the commits of both builds, as their uploads do.
    async fn put_commits(&self, repository: &str) {
        let key = self.create_key("acme", &[Scope::SymbolsWrite]).await;
        for (build, commit) in self.builds.iter().zip([BEFORE, AFTER]) {
            let body = json!({
                "debug_ids": [build.debug_id], "commit": commit, "repository": repository, "source_root": "/shop",
            });
            self.put_commit(&key, &body).await.expect_status(200);
        }
    }

    async fn count_commits(&self) -> i64 {
        self.number("SELECT count(*) FROM build_commits").await
    }
}

#[tokio::test]
async fn answers_and_pages_lead_to_the_comparison_of_the_commits() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let [before, after] = &world.builds;
    world.store_report(1, "2.4.0", before).await;
    let group = world.store_report(2, "2.4.1", after).await;
    assert_eq!(world.changes(group).await["images"][0]["commits"], Value::Null);
    let group_page = format!("/v1/groups/{group}?format=markdown");
    assert!(!world.get(&group_page, &world.key).await.text.contains("Compare the commits"));

    world.put_commits("git@github.com:example/shop.git").await;
    let found = world.changes(group).await;
    let commits = &found["images"][0]["commits"];
    assert_eq!(
        (&commits["before"]["commit"], &commits["after"]["commit"]),
        (&json!(BEFORE), &json!(AFTER)),
        "{found}"
    );
    assert_eq!(commits["compare_url"], PAGE);
    let file = &commits["files"][0];
    assert_eq!(file["path"], "shop.c", "{found}");
    let url = file["compare_url"].as_str().unwrap();
    // The digest of the path is GitHub's name of the file on the page.
    assert_eq!(url, format!("{PAGE}#diff-32f05734d9f16eaadfbd3a41c394924f36f64d4727229f988ddddaaddf56ac6e"));

    let browser = Browser::signed_in(&world, &world.key).await;
    let page = browser.fetch_page(&format!("/console/changes?group={group}")).await;
    assert!(page.contains("built of 0a1b2c3d4e5f before, and of 4d5e6f708192 since"), "{page}");
    assert!(page.contains(&format!("href=\"{PAGE}\"")) && page.contains(url), "{page}");

    let markdown = world.get(&format!("/v1/groups/{group}/changes?format=markdown"), &world.key).await;
    assert_eq!(markdown.status, 200);
    assert!(markdown.text.contains(&format!("[Compare the commits]({PAGE})")), "{}", markdown.text);
    assert!(markdown.text.contains("discounted"), "{}", markdown.text);
    // The group itself, and so a ticket about it.
    let text = world.get(&group_page, &world.key).await.text;
    let link = format!("[Compare the commits before it and since: 0a1b2c3d4e5f, 4d5e6f708192]({PAGE})");
    assert!(text.contains(&link), "{text}");
    world
        .get(&format!("/v1/groups/{group}/changes?format=html"), &world.key)
        .await
        .expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn an_unknown_host_is_text_and_a_second_upload_replaces_the_first() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let [before, after] = &world.builds;
    world.store_report(1, "2.4.0", before).await;
    let group = world.store_report(2, "2.4.1", after).await;
    world.put_commits("https://git.example.com/example/shop").await;
    let found = world.changes(group).await;
    let commits = &found["images"][0]["commits"];
    assert_eq!(
        (&commits["compare_url"], &commits["after"]["commit"]),
        (&Value::Null, &json!(AFTER)),
        "{found}"
    );
    let browser = Browser::signed_in(&world, &world.key).await;
    let page = browser.fetch_page(&format!("/console/changes?group={group}")).await;
    assert!(page.contains("of 4d5e6f708192 since") && !page.contains("git.example.com"), "{page}");
    world.put_commits("https://github.com/example/shop").await;
    assert_eq!(world.count_commits().await, 2);
    assert_eq!(world.changes(group).await["images"][0]["commits"]["compare_url"], PAGE);
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn another_tenants_commits_are_not_seen_and_an_apps_key_names_builds_of_its_app() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let [before, after] = &world.builds;
    world.store_report(1, "2.4.0", before).await;
    let group = world.store_report(2, "2.4.1", after).await;
    let ids = [before.debug_id, after.debug_id];
    let foreign = world.create_key("umbrella", &[Scope::SymbolsWrite]).await;
    let body = json!({"debug_ids": ids, "commit": BEFORE, "repository": "https://github.com/evil/shop"});
    world.put_commit(&foreign, &body).await.expect_status(200);
    assert_eq!(world.changes(group).await["images"][0]["commits"], Value::Null);
    world.put_commits("https://github.com/example/shop").await;
    world.put_commit(&foreign, &body).await.expect_status(200);
    assert_eq!(world.changes(group).await["images"][0]["commits"]["compare_url"], PAGE);

    let of_app = world.key_for("acme", &[Scope::SymbolsWrite], Some(APP)).await;
    let unseen = world.put_commit(&of_app, &body).await.expect_problem(403, "insufficient-scope");
    let unknown = json!({"debug_ids": [DebugId([9; 16])], "commit": BEFORE});
    assert_eq!(world.put_commit(&of_app, &unknown).await.expect_problem(403, "insufficient-scope"), unseen);
    assert_eq!(world.put_commit(&world.key, &body).await.status, 403);
    world.stop().await;
}

#[tokio::test]
async fn credentials_in_an_address_are_neither_stored_nor_repeated() {
    let world = ChangesWorld::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    for repository in [
        "https://ci:hunter2@github.com/example/shop",
        "https://hunter2@github.com/example/shop",
        "https://github.com/example/shop?token=hunter2",
        "ssh://git:hunter2@github.com/example/shop",
    ] {
        let body = json!({"debug_ids": [DebugId([1; 16])], "commit": BEFORE, "repository": repository});
        let refused = world.put_commit(&key, &body).await;
        assert!(!refused.text.contains("hunter2"), "{}", refused.text);
        assert!(refused.text.contains("give the address without them"), "{}", refused.text);
        refused.expect_problem(400, "invalid-body");
    }
    assert_eq!(world.count_commits().await, 0);
    let no_ids = json!({"debug_ids": [], "commit": BEFORE});
    world.put_commit(&key, &no_ids).await.expect_problem(400, "invalid-body");
    let many: Vec<DebugId> =
        (0..=500_u16).map(|n| DebugId([n.to_be_bytes(); 8].concat().try_into().unwrap())).collect();
    let too_many = json!({"debug_ids": many, "commit": BEFORE});
    world.put_commit(&key, &too_many).await.expect_problem(400, "invalid-body");
    // The same build twice is one.
    let twice = json!({"debug_ids": [DebugId([1; 16]), DebugId([1; 16])], "commit": "0A1B2C3"});
    assert_eq!(world.put_commit(&key, &twice).await.expect_status(200), json!({"builds": 1}));
    assert_eq!(world.text("SELECT commit_sha FROM build_commits").await, "0a1b2c3");
    world.stop().await;
}

#[tokio::test]
async fn a_commit_goes_with_the_symbols_of_its_build_and_the_newest_of_a_tenant_are_kept() {
    let world = ChangesWorld::start().await;
    world.put_commits("https://github.com/example/shop").await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let doomed = world.builds[0].debug_id;
    let objects = format!(
        "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, size, status, created_at, updated_at)
         VALUES ('acme', sha256('dsym'), '{doomed}', 'Shop', 'arm64', 'dsym', 1, 'ready', now(), now());
         INSERT INTO symbol_slots (tenant, debug_id, generation, quality, content_hash, updated_at)
         VALUES ('acme', '{doomed}', 1, 1, sha256('dsym'), now());
         INSERT INTO build_commits (tenant, debug_id, commit_sha, recorded_at)
         SELECT t, md5(n::text)::uuid, '0a1b2c3', timestamptz '2020-01-01' + interval '1 s' * n
         FROM generate_series(1, 100000) n, unnest(ARRAY['acme', 'umbrella']) t"
    );
    world.execute(&objects).await;
    world.delete(&format!("/v1/symbols/{doomed}"), &key).await.expect_status(204);
    let gone = format!("SELECT count(*) FROM build_commits WHERE debug_id = '{doomed}'");
    assert_eq!(world.number(&gone).await, 0);
    // The two oldest make room for the build that is left and a new one.
    let body = json!({"debug_ids": [DebugId([7; 16])], "commit": BEFORE});
    world.put_commit(&key, &body).await.expect_status(200);
    let left = async |tenant: &str| {
        world.number(&format!("SELECT count(*) FROM build_commits WHERE tenant = '{tenant}'")).await
    };
    assert_eq!((left("acme").await, left("umbrella").await), (100_000, 100_000));
    let oldest =
        "SELECT count(*) FROM build_commits WHERE tenant = 'acme' AND recorded_at < '2020-01-01 00:00:03'";
    assert_eq!(world.number(oldest).await, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_line_of_an_upload_keeps_the_commit_of_all_its_builds() {
    let world = ChangesWorld::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let login = ApiLogin {
        url: world.url.clone(),
        url_source: LoginSource::Default,
        key: Secret::new(key),
        key_source: LoginSource::Default,
    };
    let client = Client::with_login(login, std::time::Duration::ZERO).unwrap();
    let debug_ids: Vec<DebugId> =
        (0..501_u16).map(|n| DebugId([n.to_be_bytes(); 8].concat().try_into().unwrap())).collect();
    let commit = SourceCommit {
        commit: BEFORE.to_owned(),
        repository: Some("https://github.com/example/shop".to_owned()),
        pull_request: Some(214),
        source_root: None,
    };
    let builds = UploadedBuilds { debug_ids: &debug_ids, commit: &commit };
    let line = FEATURE.add_line.unwrap()(&client, CoreCommand::Upload(builds)).await.unwrap();
    assert_eq!(line.as_deref(), Some("the commit 0a1b2c3d4e5f is kept with 501 builds"));
    assert_eq!(world.number("SELECT count(*) FROM build_commits WHERE pull_request = 214").await, 501);
    world.stop().await;
}
