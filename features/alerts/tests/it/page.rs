//! The page of alerts.

use crate::alerts::alerts_api::start;
use reqwest::StatusCode;
use unslide_world::{Browser, encode_form, list_links, redirect_location};

#[tokio::test]
async fn a_rule_is_made_muted_and_deleted_on_the_page_of_alerts() {
    let world = start().await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let first = browser.get("/console/alerts").await.text;
    assert!(first.contains(r#"value="Bugs that hit many sessions""#), "{first}");
    assert!(first.contains(r#"<option value="frequent_group" selected>"#), "{first}");
    let new = [("name", "new <b>bugs"), ("condition", "new_group"), ("channel", "slack")];
    let whole =
        [("address", "https://hooks.example.com/secret"), ("quiet_from", "22:00"), ("quiet_to", "07:00")];
    let refused = browser.post("/console/alerts", encode_form(&new)).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("address: 1 to 2000 bytes"), "{}", refused.text);
    let whole: Vec<_> = new.into_iter().chain(whole).collect();
    assert_eq!(
        redirect_location(&browser.post("/console/alerts", encode_form(&whole)).await),
        "/console/alerts"
    );
    let page = browser.get("/console/alerts").await.text;
    assert!(!page.contains("frequent_group\" selected"), "only the first rule is suggested: {page}");
    assert!(page.contains("new &#60;b&#62;bugs") && page.contains("quiet 22:00 to 07:00 UTC"), "{page}");
    assert!(page.contains("https://hooks.example.com/…") && !page.contains("example.com/secret"), "{page}");
    let action = |page: &str, name: &str| {
        let mut links = list_links(page).into_iter();
        links.find(|link| link.ends_with(name)).unwrap_or_else(|| panic!("no {name} in {page}"))
    };
    for (name, word) in [("/mute", "muted for 24 h"), ("/unmute", "on"), ("/off", "off"), ("/on", "on")] {
        let page = browser.get("/console/alerts").await.text;
        browser.post(&action(&page, name), String::new()).await;
        let page = browser.get("/console/alerts").await.text;
        assert!(page.contains(&format!("</span> {word}</span>")), "{word} in {page}");
    }
    let page = browser.get("/console/alerts").await.text;
    let edited = [("name", "older bugs"), ("app", "com.example.shop"), ("digest_minutes", "5")];
    browser.post(&action(&page, "/rule"), encode_form(&edited)).await;
    let page = browser.get("/console/alerts").await.text;
    assert!(page.contains("older bugs") && page.contains("at most every 5 min"), "{page}");
    assert!(page.contains("value=\"com.example.shop\"") && !page.contains("quiet 22:00"), "{page}");
    let tested = browser.post(&action(&page, "/test"), String::new()).await;
    let looks = redirect_location(&tested).to_owned();
    assert!(looks.starts_with("/console/alerts?tested="), "{looks}");
    assert!(browser.fetch_page(&looks).await.contains("Test of older bugs: "));
    let rules = browser.post(&action(&page, "/delete"), String::new()).await;
    assert_eq!(redirect_location(&rules), "/console/alerts");
    assert!(browser.get("/console/alerts").await.text.contains("There are no rules yet"));
    world.stop().await;
}

#[tokio::test]
async fn a_rule_watches_a_figure_and_its_firing_is_acknowledged_on_the_page() {
    let world = start().await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let form = [
        ("name", "slow launches"),
        ("condition", "figure"),
        ("app", "shop"),
        ("threshold", "1500"),
        ("figure", "launch_time_p90"),
        ("comparison", "above"),
        ("version", "2.0"),
        ("channel", "webhook"),
        ("address", "https://alerts.example.com/hook"),
    ];
    assert_eq!(
        redirect_location(&browser.post("/console/alerts", encode_form(&form)).await),
        "/console/alerts"
    );
    let page = browser.get("/console/alerts").await.text;
    assert!(page.contains("a figure is bad: launch_time_p90 above 1500, 2.0"), "{page}");
    assert!(page.contains("<option value=\"energy_per_hour_p95\">") && !page.contains("Firings"), "{page}");
    let edit = list_links(&page).into_iter().find(|link| link.ends_with("/rule")).unwrap();
    let edited = [
        ("name", "slow"),
        ("app", "shop"),
        ("threshold", "2"),
        ("figure", "hang_rate_p50"),
        ("comparison", "worse"),
    ];
    browser.post(&edit, encode_form(&edited)).await;
    assert!(
        browser
            .get("/console/alerts")
            .await
            .text
            .contains("a figure is bad: hang_rate_p50 worse than before")
    );
    let firing = "INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key)
                  SELECT id, tenant, id, 'hang_rate_p50 of <shop>', now(), decode(repeat('07', 32), 'hex') FROM alert_rules";
    world.execute(firing).await;
    let page = browser.get("/console/alerts").await.text;
    assert!(page.contains("hang_rate_p50 of &#60;shop&#62;"), "{page}");
    let acknowledge = list_links(&page).into_iter().find(|link| link.ends_with("/acknowledge")).unwrap();
    assert!(acknowledge.starts_with("/console/alert-firings/"), "{acknowledge}");
    assert_eq!(redirect_location(&browser.post(&acknowledge, String::new()).await), "/console/alerts");
    let page = browser.get("/console/alerts").await.text;
    assert!(page.contains("acknowledged by") && !list_links(&page).contains(&acknowledge), "{page}");
    world.stop().await;
}
