//! The timeline of a session, with its reports.

use crate::health::database::{APP, database, event, payload, store_payloads, store_sessions};
use serde_json::json;
use time::Duration;
use unslide_harness::database::{acme, arrival, start, umbrella};
use unslide_health::store::sessions::EndReason;
use unslide_model::ContentHash;
use unslide_store::Uuid;
use unslide_store::queries::session::{self, TimelinePage};
use unslide_store::reports::Arrival;

#[tokio::test]
async fn a_session_has_its_signals_in_the_order_of_time() {
    let database = database().await;
    let run = Uuid::from_bytes([7; 16]).to_string();
    store_sessions(&database, &[event(&run, "i1", 0, Some(EndReason::Crashed))]).await;
    let mut hang = arrival(1);
    hang.facts.run_id = Some(Uuid::from_bytes([7; 16]));
    hang.facts.device_time = Some(start() + Duration::seconds(5));
    hang.facts.kind = "hang".to_owned();
    // Another report under the same id.
    let variant = Arrival { content_hash: ContentHash([9; 32]), ..hang.clone() };
    database.store(&[hang]).await;
    database.store(&[variant]).await;
    store_payloads(&database, &[payload("m1", 0, &json!({ "session": run }))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let whole = TimelinePage { app: APP, session: &run, after: None, limit: 10 };
    let found = session::list_timeline(&mut tx, whole).await.unwrap();
    let kinds: Vec<_> =
        found.iter().map(|event| (&*event.kind, event.detail.as_deref(), event.variant)).collect();
    assert_eq!(
        kinds,
        [
            ("metrics", None, 0),
            ("started", None, 0),
            ("report", Some("hang"), 0),
            ("report", Some("hang"), 1),
            ("ended", Some("crashed"), 0)
        ]
    );
    let launch = found[0].figures.iter().find(|figure| figure.metric == "launch_time").unwrap();
    assert_eq!((launch.count, launch.median, &*launch.unit), (1, Some(800.0), "ms"));
    let requests = found[0].figures.iter().find(|figure| figure.metric == "requests").unwrap();
    assert_eq!((requests.count, requests.failed, requests.median), (1, Some(0), None));
    assert!(found[0].shown.as_ref().unwrap().detail.contains("launch time 800 ms"));
    assert!(found[1..].iter().all(|event| event.figures.is_empty()));
    let (mut paged, mut after) = (Vec::new(), None::<(_, String, String, u32)>);
    loop {
        let place = after.as_ref().map(|(at, kind, id, variant)| (*at, kind.as_str(), id.as_str(), *variant));
        let page = TimelinePage { after: place, limit: 1, ..whole };
        let page = session::list_timeline(&mut tx, page).await.unwrap();
        let Some(last) = page.into_iter().next() else { break };
        after = Some((last.at, last.kind.clone().into_owned(), last.id.clone(), last.variant));
        paged.push(last);
    }
    assert_eq!(paged, found);
    assert_eq!(session::list_timeline(&mut tx, TimelinePage { app: "other", ..whole }).await.unwrap(), []);
    drop(tx);
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(session::list_timeline(&mut tx, whole).await.unwrap(), []);
}
