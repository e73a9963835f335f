//! A memory warning from Kafka to its page, which shows what the app sampled and leads to the graph of memory that was
//! captured in the same run.

use super::{World, about_memory, allocating_functions, memory_graphs};
use serde_json::json;
use unslide_tests::app::FUNCTIONS;

const RUN: &str = "5e551011-0000-4000-8000-000000000006";

pub async fn a_warning_leads_to_the_graph_of_its_run(world: &World) {
    let app = world.app.as_app("com.example.warnings", 6);
    let query = format!("app={}&kind=memory_graph&session_id={RUN}", app.bundle);
    let (_, sent) = world.client.post(&format!("/v1/captures?{query}"), memory_graphs::snapshot(&app)).await;
    let capture = format!("/captures/{}", sent["id"].as_str().expect("an id"));
    let mut warning = about_memory(&app, 6, RUN);
    warning["singleMemory"] = json!("1432.5");
    warning["threshold"] = json!("1200");
    world.send("crash.reports", &warning.to_string()).await;
    let (id, first) = world.report(app.bundle, 1).await;
    assert_eq!(first["symbolication"]["grouping"]["title"], "Memory warning", "{first}");
    assert_eq!(first["symbolication"].get("ended"), None, "a warning ends nothing");
    let page = format!("/console/reports/{id}");
    let says = "the footprint is 1433 MB, the threshold 1200 MB";
    let link = format!("<a href=\"/console{capture}\">Graph of memory</a>");
    world.console.page_with(&page, &[says, "symbols missing", "Captures of this run", &link]).await;

    world.client.upload_symbols(app.dsym.clone()).await;
    let (_, healed) = world.report(app.bundle, 2).await;
    assert_eq!(allocating_functions(&healed), FUNCTIONS, "{healed}");
    let shown = [
        says,
        "734003200 bytes in 1400 allocations",
        "<span class=\"fn\" title=\"leaf_crash\">",
        "before it warned",
    ];
    let after = world.console.page_with(&page, &shown).await;
    assert!(!after.contains("before its end"), "{after}");
    let group = world.group(app.bundle).await;
    assert_eq!((&group["kind"], &group["reports"]), (&json!("memory_warning"), &json!(1)));

    world.delete(&format!("/reports/{id}")).await;
    world.delete(&capture).await;
}
