//! Figures of pages lead to lists with exactly as many entries.

use crate::reports::{A, B, crash, hang, store};
use crate::world::{Browser, World};
use std::collections::BTreeSet;
use time::Duration;

const SHOP: &str = "com.example.shop";

/// A figure of a page, and the list that it leads to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Figure {
    count: i64,
    /// True if it counts stored rows and not what they represent.
    is_rows: bool,
    list: String,
}

/// The value of an attribute in a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
    Some(value.replace("&#38;", "&").replace("&amp;", "&"))
}

fn list_figures(page: &str) -> BTreeSet<Figure> {
    let tags = page.split("<a ").skip(1).filter_map(|rest| rest.split('>').next());
    let figures = tags.filter_map(|tag| {
        let tag = format!(" {tag}");
        let (count, is_rows) = match attribute(&tag, "data-figure") {
            Some(count) => (count, false),
            None => (attribute(&tag, "data-figure-rows")?, true),
        };
        Some(Figure { count: count.parse().unwrap(), is_rows, list: attribute(&tag, "href")? })
    });
    figures.collect()
}

/// The number that a list says it has; 0 if it is empty.
async fn total(browser: &Browser<'_>, figure: &Figure) -> i64 {
    let page = browser.fetch_page(&figure.list).await;
    let name = if figure.is_rows { "data-total-rows" } else { "data-total" };
    let tags = page.split("<p ").skip(1).filter_map(|rest| rest.split('>').next());
    let found = tags.filter_map(|tag| attribute(&format!(" {tag}"), name)).next();
    found.map_or(0, |total| total.parse().unwrap())
}

/// Stores reports of several versions, devices, kinds and days.
async fn fill(world: &World) {
    let now = world.host.clock.now();
    for n in 0..24_u32 {
        let id = format!("{n:08x}-1111-1111-1111-111111111111");
        let version = ["1.0", "2.0 (b)", ""][n as usize % 3];
        let mut report = if n % 4 == 3 { hang(&id, version, 900) } else { crash(&id, version) };
        report["system"]["machine"] = ["iPhone16,1", "iPad8,1"][n as usize % 2].into();
        if n % 5 == 0 {
            report["system"].as_object_mut().unwrap().remove("machine");
        }
        report["system"]["system_name"] = "iOS".into();
        report["system"]["system_version"] = format!("26.{}", n % 2).into();
        report["system"]["device_app_hash"] = format!("device {}", n % 7).into();
        // Some arrive in this hour, some on this day, some on earlier days.
        let ago =
            [Duration::ZERO, Duration::hours(30), Duration::days(9), Duration::days(20)][n as usize % 4];
        store(world, "acme", &report, 1, now - ago).await;
    }
    let mut other = crash(A, "1.0");
    other["system"]["CFBundleIdentifier"] = "com.example.other".into();
    store(world, "acme", &other, 1, now).await;
    store(world, "umbrella", &crash(B, "1.0"), 1, now).await;
}

#[tokio::test]
async fn each_figure_leads_to_as_many_rows() {
    let world = World::start().await;
    fill(&world).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let groups = world.get("/v1/groups?sort=reports", &key).await.expect_status(200);
    let group = groups["items"][0]["id"].as_str().unwrap();
    let version = "version=2.0+%28b%29";
    let mut seen = BTreeSet::new();
    for (page, least) in [
        ("/console".to_owned(), 8),
        ("/console?days=1".to_owned(), 5),
        ("/console?days=30".to_owned(), 8),
        (format!("/console?app={SHOP}&days=7"), 6),
        (format!("/console?app={SHOP}&{version}"), 5),
        (format!("/console/versions?app={SHOP}"), 6),
        (format!("/console/groups/{group}"), 5),
        ("/console/groups?status=all".to_owned(), 2),
        ("/console/groups?status=all&days=7".to_owned(), 1),
        (format!("/console/groups?{version}&status=all&days=30"), 1),
        ("/console/groups?sort=growing".to_owned(), 0),
        (format!("/console/symbols?app={SHOP}"), 1),
    ] {
        let figures = list_figures(&browser.fetch_page(&page).await);
        assert!(figures.len() >= least, "{page}: {figures:?}");
        for figure in figures {
            if seen.insert(figure.list.clone()) {
                assert_eq!(total(&browser, &figure).await, figure.count, "{page}: {figure:?}");
            }
        }
    }
    assert!(seen.len() > 30, "{seen:?}");
    world.stop().await;
}

/// A list says its own number, whatever its filters are, and the fields keep them.
#[tokio::test]
async fn reports_are_filtered_by_period_type_device_and_system() {
    let world = World::start().await;
    fill(&world).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    for (filter, rows, field) in [
        ("days=1", 6, "value=\"1\" selected"),
        ("days=14", 18, "value=\"14\" selected"),
        ("kind=hang", 6, "value=\"hang\""),
        ("model=iPad8%2C1", 10, "value=\"iPad8,1\""),
        ("os_version=iOS+26.0", 12, "value=\"iOS 26.0\""),
        ("without=model", 5, "without a device"),
        ("fatal=false&days=30", 6, "no crashes"),
    ] {
        let page = browser.fetch_page(&format!("/console/reports?{filter}&app={SHOP}")).await;
        let total = format!("data-total-rows=\"{rows}\"");
        let shown = page.split("data-total-rows").nth(1).map(|rest| rest.chars().take(8).collect::<String>());
        assert!(page.contains(&total), "{filter}: {shown:?} of {rows}");
        assert!(page.contains(field), "{filter}: {field}: {page}");
    }
    world.stop().await;
}
