//! Captures: analysed, analysed again when symbols come late, and given up where they are not what was said.

use crate::captures::captures_builder::{World, acme};
use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;
use unslide_artifacts::Put;
use unslide_captures::CaptureKeys;
use unslide_captures::capture::{CaptureForm, MallocLayout};
use unslide_captures::store::{
    self as captures, Capture, CaptureFile, CaptureId, CaptureState, NewCapture, ReceivedCapture,
};
use unslide_captures_formats::memory_graph::{ClassKind, MemoryGraphWriter, ReferenceKind, RootKind};
use unslide_model::ContentHash;
use unslide_proto::Message;
use unslide_proto::signal::{StackImage, StackNode, StackSet};
use unslide_store::segments;
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures::dsym;

const LOAD: u64 = 0x1_04a0_0000;
const LOG: CaptureForm =
    CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: None };

/// Stores a capture as the api does.
async fn send(world: &World, form: CaptureForm, files: &[(&'static str, Vec<u8>)]) -> CaptureId {
    let tenant = &acme();
    let mut tx = world.store.tenant(tenant).await.unwrap();
    let id = segments::new_id(&mut tx).await.unwrap();
    let keys = CaptureKeys::new(tenant, id);
    captures::expect(&mut tx, &keys.all(&form, [])).await.unwrap();
    tx.commit().await.unwrap();
    for (name, bytes) in files {
        world.objects.put(&keys.part(name), Bytes::from(bytes.clone()), &Put::default()).await.unwrap();
    }
    let named = |(name, bytes): &(&'static str, Vec<u8>)| CaptureFile {
        name: (*name).to_owned(),
        size: bytes.len() as u64,
    };
    let new = NewCapture {
        id,
        app: "com.example.shop",
        version: "1.0",
        session_id: None,
        form,
        files: &files.iter().map(named).collect::<Vec<_>>(),
        content_hash: ContentHash([7; 32]),
        keys: &files.iter().map(|(name, _)| keys.part(name).to_string()).collect::<Vec<_>>(),
    };
    let mut tx = world.store.tenant(tenant).await.unwrap();
    assert_eq!(captures::receive(&mut tx, &new).await.unwrap(), ReceivedCapture::New);
    tx.commit().await.unwrap();
    id
}

async fn get(world: &World, id: CaptureId) -> Option<Capture> {
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let capture = captures::get(&mut tx, id, None).await.unwrap();
    tx.rollback().await.unwrap();
    capture
}

/// The capture once a run has ended, and its analysis.
async fn ended(world: &World, id: CaptureId, run: u32) -> (Capture, Option<Value>) {
    let over = async {
        loop {
            let capture = get(world, id).await.unwrap();
            let ended = matches!(capture.state, CaptureState::Ready | CaptureState::Failed);
            if capture.run >= run && ended {
                return capture;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let capture = tokio::time::timeout(Duration::from_secs(120), over).await.unwrap();
    let Some(answer) = capture.answer else { return (capture, None) };
    let key = CaptureKeys::new(&acme(), id).analysis(answer);
    let stored = world.objects.get(&key, 4 << 20).await.unwrap().unwrap();
    (capture, Some(serde_json::from_slice(&stored.bytes).unwrap()))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A log of one allocation by a function of the fixture `app`.
fn log_of_app(file: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let debug_id = list_objects(file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let symcache = SymCache::parse(build_symcache(file).unwrap().symcache).unwrap();
    let named = symcache.ranges().find(|(_, answer)| answer.is_some()).unwrap();
    let images = serde_json::json!({"binary_images": [{
        "name": "/private/var/containers/Bundle/Application/1/Shop.app/Shop",
        "uuid": debug_id.to_string(), "image_addr": LOAD, "image_size": 1_048_576}]});
    vec![
        ("events", words(&[1_000, 0x6000_0010 ^ 0x5555, 2, 2])),
        // A return address is the one after its call.
        ("stacks", words(&[0, 0, 0x104, u64::MAX, LOAD + named.0.0 + 1, 1])),
        ("images", images.to_string().into_bytes()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_is_analysed_again_when_its_symbols_come() {
    let world = World::start().await;
    let file = std::fs::read(dsym("app")).unwrap();
    let id = send(&world, LOG, &log_of_app(&file)).await;
    let (first, analysis) = ended(&world, id, 1).await;
    let analysis = analysis.unwrap();
    assert_eq!((first.state, first.answer), (CaptureState::Ready, Some(1)));
    assert_eq!(
        (&analysis["memory"]["memory"]["heap_bytes"], &analysis["lacking"][0]["name"]),
        (&1_000.into(), &"Shop".into())
    );
    assert_eq!(first.summary.unwrap()["lacking"], 1);

    world.upload("app", &file).await;
    let (second, analysis) = ended(&world, id, 2).await;
    let analysis = analysis.unwrap();
    assert_eq!((second.state, second.answer), (CaptureState::Ready, Some(2)));
    assert_eq!(analysis["lacking"].as_array().unwrap().len(), 0, "{analysis}");
    let name = analysis["memory"]["stacks"][0]["allocator"].as_str().unwrap();
    assert!(!name.starts_with("Shop + "), "{name}");
    world.wait_until_idle().await;
    assert_eq!(get(&world, id).await.unwrap().run, 2, "nothing else is asked for");
    let condemned = "SELECT count(*) FROM condemned_objects WHERE key LIKE '%analysis-1'";
    assert_eq!(world.number(condemned).await, 1, "the first analysis goes");

    // Symbols that are there when a capture comes are used at once.
    let mut again = log_of_app(&file);
    again[0].1.extend(words(&[5, 0x7000_0010 ^ 0x5555, 2, 2]));
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    captures::delete(&mut tx, id, None).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let id = send(&world, LOG, &again).await;
    let (capture, analysis) = ended(&world, id, 1).await;
    assert_eq!((capture.answer, analysis.unwrap()["lacking"].as_array().unwrap().len()), (Some(1), 0));
    world.stop().await;
}

/// A set of three samples in a function of the fixture `app`, and two in its caller.
fn stack_set(file: &[u8]) -> Vec<u8> {
    let debug_id = list_objects(file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let image = StackImage { debug_id: debug_id.0.to_vec().into(), name: "Shop".to_owned() };
    let node = |parent, count| StackNode { parent, image: 1, address: 0x4000, count, exact: false };
    StackSet { images: vec![image], nodes: vec![node(0, 2), node(1, 3)] }.encode_to_vec()
}

/// A root with a block of 100 bytes that holds another of 50.
fn memory_graph() -> Vec<u8> {
    let mut graph = MemoryGraphWriter::new(Vec::new(), "Shop", 1).unwrap();
    graph.add_class("Cart", ClassKind::Swift, 0).unwrap();
    graph.add_zone("DefaultMallocZone").unwrap();
    graph.add_node(0x1000, 100, Some(0), Some(0)).unwrap();
    graph.add_node(0x2000, 50, None, Some(0)).unwrap();
    graph.add_reference(0, 1, ReferenceKind::Strong, 8).unwrap();
    graph.add_root(0, RootKind::Global, 0x10_0000).unwrap();
    graph.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_of_every_form_is_analysed() {
    let world = World::start().await;
    let file = std::fs::read(dsym("app")).unwrap();
    let folded = b"main;draw 3\nmain 4\n".to_vec();
    for (form, files, unit, weight) in [
        (CaptureForm::Profile, vec![("file", folded)], "samples", 7),
        (CaptureForm::StackSet, vec![("file", stack_set(&file))], "samples", 5),
        (CaptureForm::MemoryGraph, vec![("file", memory_graph())], "bytes", 150),
        (LOG, log_of_app(&file), "bytes", 1_000),
    ] {
        let id = send(&world, form, &files).await;
        let (capture, analysis) = ended(&world, id, 1).await;
        let (kind, analysis) = (form.kind(), analysis.unwrap());
        assert_eq!(capture.state, CaptureState::Ready, "{kind}: {capture:?}");
        let tree = &analysis["tree"];
        assert_eq!((&tree["unit"], &tree["weight"]), (&unit.into(), &weight.into()), "{kind}: {tree}");
        assert_eq!(analysis["graph"].is_object(), form == CaptureForm::MemoryGraph, "{kind}");
        assert_eq!(analysis["memory"].is_object(), form == LOG, "{kind}");
        let is_graph = capture.summary.unwrap()["source"] == "memory_graph";
        assert_eq!(is_graph, form == CaptureForm::MemoryGraph, "{kind}");
        // The next one is of the same content hash.
        world.wait_until_idle().await;
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        captures::delete(&mut tx, id, None).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_was_said_fails_with_a_reason() {
    let world = World::start().await;
    let id = send(&world, CaptureForm::Profile, &[("file", b"\x00\x01\x02 no profile".to_vec())]).await;
    let (capture, analysis) = ended(&world, id, 1).await;
    assert_eq!((capture.state, capture.reason.as_deref()), (CaptureState::Failed, Some("malformed")));
    assert!(capture.detail.unwrap().contains("not a profile") && analysis.is_none());
    world.wait_until_idle().await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    captures::delete(&mut tx, id, None).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let id = send(&world, CaptureForm::Profile, &[("file", b"main;draw 3\n".to_vec())]).await;
    let (capture, analysis) = ended(&world, id, 1).await;
    assert_eq!((capture.state, analysis.unwrap()["tree"]["weight"].as_u64()), (CaptureState::Ready, Some(3)));
    world.stop().await;
}
