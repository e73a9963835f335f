//! Deletion of names files.

use super::symbols_and_uploads::object;
use crate::jobs::{self, JobKind, Work};
use crate::objects::{self, NewObject};
use crate::symbols::names_files::{DeletedNames, count_names_only, delete_names_files};
use crate::tests::database::{Database, acme, debug_id};
use crate::uploads;

#[tokio::test]
async fn names_are_deleted_unless_their_debug_id_has_other_symbols() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
    let names = |content, id| NewObject { kind: "names".into(), ..object(content, Some(id)) };
    let found = [("a", &names(1, 1)), ("b", &names(2, 2)), ("b.dSYM", &object(3, Some(2)))];
    objects::record_found(&mut tx, upload, &found).await.unwrap();
    tx.commit().await.unwrap();
    let ids = [debug_id(3), debug_id(2), debug_id(1)];
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(count_names_only(&mut tx, &ids).await.unwrap(), 1);
    let deleted = delete_names_files(&mut tx, &ids).await.unwrap();
    assert_eq!(deleted, [DeletedNames { debug_id: debug_id(1), generation: 1 }]);
    assert_eq!(delete_names_files(&mut tx, &ids).await.unwrap(), []);
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM objects").await, 2);
    let purges =
        jobs::lease_jobs(&database.store, &[JobKind::Purge], "w", time::Duration::MINUTE, 9).await.unwrap();
    assert_eq!(purges.len(), 1);
    let hash = object(1, Some(1)).content_hash;
    assert!(matches!(&purges[0].work, Work::Purge { generation: 1, objects, .. } if *objects == [hash]));
    assert_eq!(database.number("SELECT count(*) FROM outbox WHERE kind = 'symbol_event'").await, 1);
}
