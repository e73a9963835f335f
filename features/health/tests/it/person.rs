//! The sessions of an installation or a user, and their reports.

use crate::health::database::{APP, database, event, store_sessions};
use sqlx::Row;
use unslide_harness::database::{acme, arrival, umbrella};
use unslide_health::store::sessions::EndReason;
use unslide_store::queries::person::{self, PersonIdKind, SearchedSession};
use unslide_store::{Uuid, sessions};

#[tokio::test]
async fn a_user_and_an_installation_lead_to_their_sessions_and_reports() {
    let database = database().await;
    let run = Uuid::from_bytes([7; 16]).to_string();
    let mut crashed = event(&run, "installation 1", 2, Some(EndReason::Crashed));
    crashed.event.user = Some("customer 4711".to_owned());
    let newer = event("s2", "installation 1", 0, Some(EndReason::Exited));
    let other = event("s3", "installation 2", 0, Some(EndReason::Crashed));
    store_sessions(&database, &[crashed, newer, other]).await;
    let mut report = arrival(1);
    report.facts.run_id = Some(Uuid::from_bytes([7; 16]));
    database.store(&[report.clone()]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = sessions::list_of_person(&mut tx, "installation 1", None).await.unwrap();
    let sessions: Vec<_> = found.iter().map(|one| (one.session.as_str(), one.found_by)).collect();
    let by_installation = PersonIdKind::Installation;
    assert_eq!(sessions, [(run.as_str(), by_installation), ("s2", by_installation)], "the crash first");
    let found = sessions::list_of_person(&mut tx, "customer 4711", Some(APP)).await.unwrap();
    assert_eq!((found.len(), found[0].found_by), (1, PersonIdKind::User));
    assert_eq!(found[0].end_reason.as_deref(), Some("crashed"));
    let searched =
        [SearchedSession { run: Uuid::parse_str(&found[0].session).unwrap(), found_by: PersonIdKind::User }];
    let reports = person::list_session_reports(&mut tx, &searched, None, 10).await.unwrap();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].report.report_id, report.report_id);
    for (id, app) in [("customer 4712", None), ("customer 4711", Some("com.acme.other")), ("", None)] {
        assert_eq!(sessions::list_of_person(&mut tx, id, app).await.unwrap(), [], "{id}");
    }
    drop(tx);
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(sessions::list_of_person(&mut tx, "customer 4711", None).await.unwrap(), []);
}

#[tokio::test]
async fn sessions_of_a_person_are_found_by_an_index() {
    let database = database().await;
    store_sessions(&database, &[event("s1", "installation 1", 0, None)]).await;
    let statement = "INSERT INTO sessions (tenant, day, app, session_id, version, installation, user_hash, started_at, received_at)
         SELECT 'acme', day, 'com.acme.shop', 'x' || n, '1.0', decode(md5('i' || n), 'hex'), decode(md5('u' || n), 'hex'),
             started_at, received_at
         FROM sessions, generate_series(1, 20000) n WHERE session_id = 's1'";
    database.execute(statement).await;
    database.execute("ANALYZE sessions").await;
    for column in ["installation", "user_hash"] {
        let plan = database
            .rows(&format!(
                "EXPLAIN (COSTS off) SELECT session_id FROM sessions
                 WHERE tenant = 'acme' AND {column} = decode(md5('i7'), 'hex') ORDER BY day DESC, session_id DESC LIMIT 1000"
            ))
            .await;
        let plan = plan.iter().map(|row| row.get(0)).collect::<Vec<String>>().join("\n");
        assert!(plan.contains("Index"), "{column}: {plan}");
        assert!(!plan.contains(&format!("Filter: ({column}")), "{column}: {plan}");
    }
}
