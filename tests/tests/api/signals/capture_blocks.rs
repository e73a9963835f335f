//! Blocks of a graph of memory, by the API and the console.

use super::captures::{analyse_as_builder, analysed, analysed_graph};
use crate::world::{Browser, World};
use bytes::Bytes;
use reqwest::Method;
use serde_json::json;
use unslide_captures::capture::{CaptureForm, analyse_capture};
use unslide_captures_formats::memory_graph::{ClassKind, MemoryGraphWriter, ReferenceKind, RootKind};
use unslide_proto::signal::MemoryMember;

const APP: &str = "com.example.shop";

/// A graph of memory of a tenant that a builder has analysed: a cart with an item, and a leaked item.
pub async fn analysed_snapshot(world: &World, of: &str, key: &str) -> String {
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
    let (name, kind) = ("items<b>".to_owned(), "Item<b>".to_owned());
    let items = MemoryMember { offset: 8, name, r#type: kind, stride: 8 };
    writer.add_class_with_members("_TtC4Shop4Cart", ClassKind::Swift, 0, &[items]).unwrap();
    writer.add_class("Item<b>", ClassKind::Swift, 0).unwrap();
    for (address, size, class) in [(0x1000, 64, 0), (0x2000, 32, 1), (0x3000, 16, 1)] {
        writer.add_node(address, size, Some(class), None).unwrap();
    }
    writer.add_reference(0, 1, ReferenceKind::Strong, 8).unwrap();
    writer.add_reference(0, 2, ReferenceKind::Weak, 16).unwrap();
    writer.add_root(0, RootKind::Global, 0x10_0000).unwrap();
    let file = Bytes::from(writer.finish().unwrap());
    let path = format!("/v1/captures?app={APP}&kind=memory_graph");
    let request = world.request(Method::POST, &path, key).body(file.clone());
    let sent = world.send(request).await.expect_status(202);
    let id = sent["id"].as_str().unwrap().to_owned();
    let analysis = analyse_capture(&CaptureForm::MemoryGraph, &|_| &file, &|_| None).unwrap().analysis;
    analyse_as_builder(world, of, &id, &analysis).await;
    id
}

#[tokio::test]
async fn a_block_or_class_of_a_graph_is_asked_for() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let id = analysed_snapshot(&world, "acme", &key).await;
    let path = format!("/v1/captures/{id}/blocks");
    let item = world.get(&format!("{path}?address=0x2008"), &key).await.expect_status(200);
    let block = &item["block"];
    assert_eq!(
        (&block["address"], &block["class"], &block["retained"]),
        (&json!("0x2000"), &json!("Item<b>"), &json!(32))
    );
    let by = json!([{"address": "0x1000", "class": "Shop.Cart", "by": "strong", "offset": 8,
        "member": {"name": "items<b>[0]", "type": "Item<b>"}, "keeps_alive": true}]);
    assert_eq!((&block["referrers"], &block["path"][0]["by"]), (&by, &json!("global")));
    let cart = world.get(&format!("{path}?class=Shop.Cart"), &key).await.expect_status(200);
    let keeps = json!([{"address": "0x2000", "class": "Item<b>", "bytes": 32, "retained": 32}]);
    assert_eq!((&cart["block"]["keeps"], &cart["class"]["count"]), (&keeps, &json!(1)));
    for (query, detail) in
        [("", "give one of them"), ("?address=0xfg", "hexadecimal"), ("?address=1&class=a", "one of them")]
    {
        let answer = world.get(&format!("{path}{query}"), &key).await;
        let found = answer.expect_problem(400, "invalid-parameter");
        assert!(found.contains(detail), "{found}");
    }
    for query in ["address=0x9000", "class=Basket"] {
        world.get(&format!("{path}?{query}"), &key).await.expect_problem(404, "not-found");
    }
    let text = analysed_graph(&world, &key, "COUNT BYTES AVG CLASS_NAME\n1 16 16.0 Cart\n").await;
    let profile = analysed(&world, "acme", &key).await;
    for (other, detail) in [(&text, "no references"), (&profile, "no graph of memory")] {
        let answer = world.get(&format!("/v1/captures/{other}/blocks?class=Cart"), &key).await;
        let found = answer.expect_problem(400, "invalid-parameter");
        assert!(found.contains(detail), "{found}");
    }

    let browser = Browser::signed_in(&world, &key).await;
    let capture = browser.fetch_page(&format!("/console/captures/{id}")).await;
    assert!(capture.contains(&format!("/console/captures/{id}/blocks")), "{capture}");
    assert!(!browser.fetch_page(&format!("/console/captures/{text}")).await.contains("/blocks"));
    let page = browser.fetch_page(&format!("/console/captures/{id}/blocks?block=Shop.Cart")).await;
    for part in [
        "Shop.Cart 0x1000",
        "96 B would be free",
        "blocks?address=0x2000",
        "Item&#60;b&#62;",
        "outside of the heap",
        "strong, items&#60;b&#62;[0]: Item&#60;b&#62;",
        "stroke-dasharray",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let item = browser.fetch_page(&format!("/console/captures/{id}/blocks?block=0x2000")).await;
    assert!(item.contains("Shop.Cart.items&#60;b&#62;[0] → Item&#60;b&#62;"), "{item}");
    let leaked = browser.fetch_page(&format!("/console/captures/{id}/blocks?block=0x3000")).await;
    assert!(leaked.contains("No root reaches it") && leaked.contains("keeps nothing alive"), "{leaked}");
    world.stop().await;
}
