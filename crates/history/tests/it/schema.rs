//! The schema and its check.

use crate::world::{BEGIN, World, row, tenant};
use serde_json::json;
use unslide_history::{History, HistoryPolicies};
use uuid::Uuid;

#[tokio::test]
async fn the_schema_is_created_once_and_the_check_tells_of_it() {
    let world = World::start().await;
    world.history.insert(&tenant("acme"), Uuid::from_u128(1), &[row(1, 1, &json!({}))]).await.unwrap();
    world.history.create_schema().await.unwrap();
    assert_eq!(world.count("true").await, 1, "what is there stays");
    let check = world.history.check().await.unwrap();
    assert!(check.has_schema && check.version.contains('.'), "{check:?}");
    assert_eq!(check.cluster_problem, None);
    let empty = History::new(&unslide_history::HistorySettings {
        database: format!("{}_none", world.settings.database),
        ..world.settings.clone()
    });
    assert!(!empty.unwrap().check().await.unwrap().has_schema);
    world.stop().await;
}

/// The engine inside of a program has no users: it says so. On a server, another user with all grants sees no row.
#[tokio::test]
async fn another_user_sees_no_row() {
    let world = World::start().await;
    let check = world.history.check().await.unwrap();
    if check.policies == HistoryPolicies::NoAccessControl {
        let policy = format!("CREATE ROW POLICY p ON {}.reports USING 1 TO ALL", world.settings.database);
        let (status, text) = world.try_run("default", "", &policy).await;
        assert!(status == 500 && text.contains("ACCESS_DENIED"), "{text}");
        return world.stop().await;
    }
    assert_eq!(check.policies, HistoryPolicies::Closed);
    world.history.insert(&tenant("acme"), Uuid::from_u128(1), &[row(1, 1, &json!({}))]).await.unwrap();
    let (other, everywhere) = (format!("{}_other", world.settings.database), world.on_cluster());
    world.run(&format!("CREATE USER {other}{everywhere} IDENTIFIED BY 'hush'")).await;
    world.run(&format!("GRANT{everywhere} SELECT ON {}.* TO {other}", world.settings.database)).await;
    let (status, text) = world.try_run(&other, "hush", "SELECT count() FROM reports").await;
    assert_eq!((status, text.trim()), (200, "0"));
    assert_eq!(world.count(&format!("received_at = '{}'", BEGIN.date())).await, 0);
    let policy = format!(
        "CREATE ROW POLICY open{everywhere} ON {}.reports USING 1 TO {other}",
        world.settings.database
    );
    world.run(&policy).await;
    let opened = world.history.check().await.unwrap().policies;
    assert!(matches!(&opened, HistoryPolicies::Open(reason) if reason.contains("open")), "{opened:?}");
    world.run(&format!("DROP USER {other}{everywhere}")).await;
    world.stop().await;
}
