//! What a group says of crashes that the analysis has explained and that an indexer has stored.

use crate::fault_analysis::subjects::{HEAP, StoredCrash, crash_through, enrich_crash};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_feature::ConfiguredFeature;
use unslide_harness::service::RunningService;
use unslide_indexer::{Config, SenderRules, Settings};
use unslide_proto::headers;
use unslide_runtime::{Host, TenantDefaults};
use unslide_stream::{OutRecord, Producer};
use unslide_world::{Browser, World};

/// Probes of an indexer that has started.
const INDEXER_PROBES: usize = 5;
const TENANT: &str = "acme";

fn features() -> Vec<ConfiguredFeature> {
    vec![unslide_fault_analysis::feature(), unslide_console::feature()]
}

/// Returns a crash of a device, enriched as a symbolizer does, with the number in its id.
fn crash_of(mut crash: StoredCrash, number: u8, device: Option<&str>) -> String {
    crash.report["report"]["id"] = format!("00000000-0000-4000-8000-{number:012}").into();
    crash.report["system"] = json!({"CFBundleIdentifier": "com.example.lab", "CFBundleShortVersionString": "1.0",
        "device_app_hash": device});
    String::from_utf8(enrich_crash(&crash.report, crash.with_binary()).bytes).unwrap()
}

/// Stores enriched reports as they come from Kafka.
async fn store(world: &World, reports: &[String]) {
    let producer = Producer::new(&world.config.kafka).unwrap();
    for report in reports {
        let record = OutRecord::for_topic(world.config.kafka.topic_names().output, report.clone())
            .header(headers::TENANT, TENANT)
            .header(headers::REVISION, "1");
        producer.send_record(&record).await.unwrap();
    }
    let host = Host::local().unwrap().for_service("indexer").unwrap();
    let config = Config {
        indexer: Settings::default(),
        tenants: TenantDefaults::default(),
        symbolizer: SenderRules::default(),
        postgres: world.config.postgres.clone(),
        kafka: world.config.kafka.clone(),
        objects: world.config.objects.clone(),
        ..Config::default()
    };
    let added = unslide_feature::for_indexer(&features());
    let running =
        RunningService::spawn(host.clone(), INDEXER_PROBES, unslide_indexer::run(config, added, host));
    let stored = async || world.number("SELECT count(*) FROM reports").await == reports.len() as i64;
    assert!(unslide_world::wait_until(stored).await, "all reports are stored");
    running.stop().await;
}

/// The context of a group as JSON, its Markdown and its page.
struct ShownGroup {
    context: Value,
    markdown: String,
    page: String,
}

/// Reads all groups, by the expression that their reports name.
async fn read_groups(world: &World) -> BTreeMap<String, ShownGroup> {
    let key = world.create_master_key(TENANT).await;
    let browser = Browser::signed_in(world, &key).await;
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let mut shown = BTreeMap::new();
    for group in groups["items"].as_array().unwrap() {
        let id = group["id"].as_str().unwrap();
        let context = world.get(&format!("/v1/groups/{id}/context"), &key).await.expect_status(200);
        let subject = context["verdicts"][0]["subject"].as_str().unwrap().to_owned();
        let markdown = world.get(&format!("/v1/groups/{id}?format=markdown&evidence=true"), &key).await.text;
        let page = browser.fetch_page(&format!("/console/groups/{id}")).await;
        assert!(shown.insert(subject, ShownGroup { context, markdown, page }).is_none(), "{groups}");
    }
    shown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_says_which_expression_is_null_and_on_how_many_devices() {
    let world = World::start(unslide_feature::for_api(&features()), |_| {}).await;
    let null = |number, device| crash_of(StoredCrash::find("null_field.arm64.O1"), number, device);
    let reference = |number| crash_of(StoredCrash::find("reference_null.arm64.O1"), number, Some("phone"));
    let reports = [
        null(1, Some("phone")),
        null(2, Some("phone")),
        null(3, Some("tablet")),
        null(4, None),
        reference(5),
        reference(6),
        reference(7),
    ];
    store(&world, &reports).await;
    let groups = read_groups(&world).await;
    let ShownGroup { context, markdown, page } = &groups["p"];
    let share =
        json!({"analysis": "fault", "verdict": "null_pointer", "subject": "p", "reports": 4, "devices": 2});
    assert_eq!(context["verdicts"], json!([share]));
    assert_eq!((&context["from_one_device"], &context["device_note"]), (&json!(false), &Value::Null));
    let sentence = "`p` is null in 4 of 4 reports, from 2 devices";
    assert!(markdown.contains(&format!("- In the newest reports: {sentence} [group ")), "{markdown}");
    assert!(page.contains(&format!("<li>{sentence}</li>")), "{page}");
    assert!(!markdown.contains("One device") && !page.contains("One device"));

    let ShownGroup { context, markdown, page } = &groups["o"];
    let note = "One device only (3 reports): look at its hardware.";
    assert_eq!((&context["from_one_device"], &context["device_note"]), (&json!(true), &json!(note)));
    assert!(markdown.contains(&format!("- {note} [group ")) && page.contains(note), "{markdown} {page}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_device_with_flipped_bits_in_several_groups_is_said() {
    let world = World::start(unslide_feature::for_api(&features()), |_| {}).await;
    let flipped = HEAP ^ 1 << 36;
    let cases =
        [("null_field.arm64.O1", "x0"), ("reference_null.arm64.O1", "x0"), ("null_next.arm64.O1", "x8")];
    let mut reports: Vec<String> = cases
        .iter()
        .zip(1..)
        .map(|((case, register), number)| {
            crash_of(crash_through(case, register, flipped), number, Some("phone"))
        })
        .collect();
    // The same bug on another device, without the hint.
    reports.push(crash_of(StoredCrash::find("null_field.arm64.O1"), 9, Some("tablet")));
    store(&world, &reports).await;
    let groups = read_groups(&world).await;
    let ShownGroup { context, markdown, page } = &groups["o"];
    let hint = json!({"analysis": "fault", "hint": "one_bit_from", "reports": 1, "devices": 1,
        "other_groups_of_device": 2});
    assert_eq!(context["hints"], json!([hint]));
    let note = "One device only (1 report): its pointers are off by one bit in 3 groups; look at its memory.";
    assert_eq!(context["device_note"], note);
    assert!(markdown.contains(&format!("- {note} [group ")) && page.contains(note), "{markdown} {page}");
    let note =
        "One device only (1 of 2 reports): its pointers are off by one bit in 3 groups; look at its memory.";
    assert_eq!(groups["p"].context["device_note"], note);
    for ShownGroup { context, markdown, page } in groups.values() {
        for text in [&context.to_string(), markdown, page] {
            for digits in [flipped.to_string(), format!("{flipped:x}")] {
                assert!(!text.contains(&digits), "{text}");
            }
        }
    }
    world.stop().await;
}
