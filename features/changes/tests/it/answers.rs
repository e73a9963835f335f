//! Answers of the API and of the command.

use crate::changes::changes_world::{APP, ChangesWorld};
use serde_json::{Value, json};
use unslide_cli::Exit;
use unslide_commands::changes::FEATURE;
use unslide_model::Scope;

fn states(changes: &Value) -> Vec<(String, String)> {
    let functions = changes["images"][0]["functions"].as_array().unwrap();
    let text = |function: &Value, key: &str| function[key].as_str().unwrap().to_owned();
    functions.iter().map(|function| (text(function, "name"), text(function, "state"))).collect()
}

#[tokio::test]
async fn the_function_that_was_edited_before_the_crash_is_named() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let [before, after] = &world.builds;
    world.store_report(1, "2.4.0", before).await;
    world.store_report(1, "2.3.0", before).await;
    let group = world.store_report(2, "2.4.1", after).await;
    world.store_report(2, "2.5.0", after).await;
    let found = world.changes(group).await;
    assert_eq!(
        (&found["outcome"], &found["version"], &found["version_before"]),
        (&json!("compared"), &json!("2.4.1"), &json!("2.4.0")),
        "{found}"
    );
    let expected = [("discounted", "changed"), ("cart_total", "affected"), ("cart_open", "same")];
    assert_eq!(states(&found), expected.map(|(name, state)| (name.to_owned(), state.to_owned())), "{found}");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with("`discounted` changed in 2.4.1: 1 line more"), "{text}");
    assert!(text.ends_with("; nothing else in this stack did."), "{text}");
    assert_eq!(found["images"][0]["debug_id_before"], before.debug_id.to_string());
    assert_eq!(found["not_compared"], json!(["callees", "variables", "constants"]));
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_compared_is_said() {
    let world = ChangesWorld::start().await;
    let [before, after] = &world.builds;
    let group = world.store_report(2, "2.4.1", after).await;
    let outcome = async || {
        let found = world.changes(group).await;
        let text = found["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with("Not compared: "), "{found}");
        found["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcome().await, "no_older_build");
    world.store_report(1, "2.4.0", before).await;
    assert_eq!(outcome().await, "no_symbols");
    // The same build under another version has no counterpart.
    world.store_report(3, "2.4.0.1", after).await;
    assert_eq!(outcome().await, "no_older_build");
    world.stop().await;
}

#[tokio::test]
async fn two_builds_are_compared_by_their_debug_ids() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let [a, b] = world.builds.each_ref().map(|build| build.debug_id);
    let diff = async |a: &str, b: &str, more: &str| {
        world.get(&format!("/v1/builds/diff?a={a}&b={b}{more}"), &world.key).await
    };
    let (a, b) = (a.to_string(), b.to_string());
    let found = diff(&a, &b, "").await.expect_status(200);
    assert_eq!(found["outcome"], "compared");
    assert_eq!(found["functions"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["functions"][0]["name"], "discounted");
    let changed_line = found["functions"][0]["changed_line"].as_u64().unwrap();
    assert_eq!(changed_line, 6, "{found}");
    let same = diff(&a, &b, "&function=cart_show").await.expect_status(200);
    assert_eq!(same["functions"][0]["state"], "same", "{same}");
    let none = diff(&a, &b, "&function=no_such").await.expect_status(200);
    assert_eq!(none["functions"], json!([]));
    let unknown = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let missing = diff(&a, unknown, "").await.expect_problem(404, "not-found");
    // Another tenant's builds look as those that nobody has, and those of another app do, too.
    let foreign = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let only_app = world.key_for("acme", &[Scope::ReportsRead], Some(APP)).await;
    for key in [foreign, only_app] {
        let hidden = world.get(&format!("/v1/builds/diff?a={a}&b={b}"), &key).await;
        assert_eq!(hidden.expect_problem(404, "not-found"), missing);
    }
    diff(&a, "x", "").await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_asks_the_api_for_debug_ids() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let [a, b] = world.builds.each_ref().map(|build| build.debug_id.to_string());
    for more in [&[][..], &["--json"], &["--function", "cart_total"]] {
        let line = ["builds", "diff", "--url", &world.url, "--api-key", &world.key, &a, &b];
        let matches = (FEATURE.commands[0].command)().get_matches_from(line.iter().chain(more));
        let exit = tokio::task::spawn_blocking(move || (FEATURE.commands[0].run)(&matches).unwrap());
        assert_eq!(exit.await.unwrap(), Exit::Ready);
    }
    world.stop().await;
}
