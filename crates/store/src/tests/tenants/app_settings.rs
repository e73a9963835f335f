//! Settings of apps: each tenant's own, and not too many.

use crate::app_settings::{
    ALL_APPS, APPS_WITH_SETTINGS_LIMIT, AppSettings, AppWithSettings, get, list_settings, replace_settings,
};
use crate::app_signals::{SignalSettings, read_for_apps};
use crate::tenants::{self, QuotaLimits};
use crate::tests::database::{Database, acme, tenant_id};

fn settings(url: &str) -> AppSettings {
    AppSettings { source_url: url.to_owned(), source_root: "/ci".to_owned(), ..AppSettings::default() }
}

fn names(found: Vec<AppWithSettings>) -> Vec<String> {
    found.into_iter().map(|one| one.app).collect()
}

#[tokio::test]
async fn the_signals_of_all_apps_count_for_apps_without_a_choice() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let without_hangs = SignalSettings { hangs: false, ..SignalSettings::default() };
    let with = |signals| AppSettings { signals, ..AppSettings::default() };
    // The bank chose to keep all before there was a default: it follows the default.
    assert!(replace_settings(&mut tx, "bank", &settings("https://a/{path}")).await.unwrap());
    assert!(replace_settings(&mut tx, ALL_APPS, &with(without_hangs)).await.unwrap());
    assert_eq!(
        get(&mut tx, "bank").await.unwrap(),
        AppSettings { signals: without_hangs, ..settings("https://a/{path}") }
    );
    assert_eq!(get(&mut tx, "shop").await.unwrap(), with(without_hangs));
    assert!(replace_settings(&mut tx, "shop", &with(SignalSettings::default())).await.unwrap());
    assert_eq!(get(&mut tx, "shop").await.unwrap(), with(SignalSettings::default()));
    let found = read_for_apps(&mut tx, &["shop", "bank", "new"].into()).await.unwrap();
    let keeps = |app: &str| found.for_app(app).hangs;
    assert_eq!((keeps("shop"), keeps("bank"), keeps("new")), (true, false, false));
    let listed = list_settings(&mut tx, None, None, 10).await.unwrap();
    let hangs: Vec<_> = listed.iter().map(|one| (one.app.as_str(), one.settings.signals.hangs)).collect();
    assert_eq!(hangs, [("*", false), ("bank", false), ("shop", true)]);
    assert!(replace_settings(&mut tx, ALL_APPS, &AppSettings::default()).await.unwrap());
    assert!(get(&mut tx, "new").await.unwrap().signals.hangs);
    let listed = list_settings(&mut tx, None, None, 10).await.unwrap();
    assert_eq!(names(listed), ["*", "bank", "shop"], "the choice is stored, although it is the default");
}

#[tokio::test]
async fn an_app_has_the_settings_that_its_tenant_chose_last() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(get(&mut tx, "shop").await.unwrap(), AppSettings::default());
    for url in ["https://a/{path}", "https://b/{path}"] {
        assert!(replace_settings(&mut tx, "shop", &settings(url)).await.unwrap());
        assert_eq!(get(&mut tx, "shop").await.unwrap(), settings(url));
    }
    assert!(replace_settings(&mut tx, "bank", &settings("https://c/{path}")).await.unwrap());
    assert_eq!(names(list_settings(&mut tx, None, None, 10).await.unwrap()), ["bank", "shop"]);
    assert_eq!(names(list_settings(&mut tx, Some("shop"), None, 10).await.unwrap()), ["shop"]);
    assert_eq!(names(list_settings(&mut tx, None, Some("bank"), 10).await.unwrap()), ["shop"]);
    tx.commit().await.unwrap();
    let umbrella = tenant_id("umbrella");
    let mut tx = database.store.tenant(&umbrella).await.unwrap();
    let _ = tenants::create_tenant(&mut tx, "Umbrella", &QuotaLimits::default()).await.unwrap();
    assert_eq!(get(&mut tx, "shop").await.unwrap(), AppSettings::default());
    tx.rollback().await.unwrap();
    // Empty settings are none: they take no place.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(replace_settings(&mut tx, "bank", &AppSettings::default()).await.unwrap());
    assert_eq!(names(list_settings(&mut tx, None, None, 10).await.unwrap()), ["shop"]);
    for number in 1..APPS_WITH_SETTINGS_LIMIT {
        assert!(
            replace_settings(&mut tx, &format!("app {number}"), &settings("https://a/{path}")).await.unwrap()
        );
    }
    assert!(!replace_settings(&mut tx, "one more", &settings("https://a/{path}")).await.unwrap());
    assert!(replace_settings(&mut tx, "shop", &settings("https://d/{path}")).await.unwrap());
}
