//! Uploads, their objects, and what answers for a debug id.

use crate::jobs::{self, JobKind, Work};
use crate::objects::{self, NewObject, Symcache};
use crate::symbols::{self, SymbolReadiness};
use crate::tests::database::{Database, acme, debug_id, publish, symbols as published};
use crate::uploads::{self, SkippedMember};
use crate::{UploadId, slots, usage};
use std::time::Duration;
use unslide_model::{Clock, ContentHash, DebugId, Owner, Quality};

pub fn object(content: u8, debug: Option<u8>) -> NewObject {
    NewObject {
        content_hash: ContentHash([content; 32]),
        debug_id: debug.map(debug_id),
        name: format!("Shop-{content}\0"),
        arch: "arm64".into(),
        kind: "dsym".into(),
        has_dwarf: true,
        has_symtab: true,
        has_exports: false,
        has_sources: false,
        size: 1000,
    }
}

async fn upload(database: &Database) -> UploadId {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = uploads::create_upload(&mut tx, Some("Shop.dSYM.zip"), None).await.unwrap();
    assert!(uploads::record_received(&mut tx, id, 5, &ContentHash([5; 32])).await.unwrap());
    assert!(!uploads::record_received(&mut tx, id, 5, &ContentHash([5; 32])).await.unwrap());
    tx.commit().await.unwrap();
    id
}

#[tokio::test]
async fn an_upload_goes_its_way_and_says_where_it_is() {
    let database = Database::new().await;
    let id = upload(&database).await;
    let leased =
        jobs::lease_jobs(&database.store, &[JobKind::Build], "w", time::Duration::MINUTE, 10).await.unwrap();
    assert_eq!(leased[0].work, Work::Build { upload: id });
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    uploads::mark_building(&mut tx, id).await.unwrap();
    let (_, known) =
        objects::record_found(&mut tx, id, &[("a/Shop", &object(1, Some(1)))]).await.unwrap().remove(0);
    assert!(!known);
    objects::record_found(&mut tx, id, &[("b/Broken", &object(2, None))]).await.unwrap();
    tx.commit().await.unwrap();
    let waiting = {
        let store = database.store.clone();
        tokio::spawn(
            async move { uploads::wait_for_status(&store, &acme(), id, Duration::from_secs(300)).await },
        )
    };
    let soon = uploads::wait_for_status(&database.store, &acme(), id, Duration::from_millis(10))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((soon.0.status, soon.1.len()), (uploads::UploadStatus::Building, 2));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    objects::mark_building(&mut tx, &ContentHash([1; 32])).await.unwrap();
    let symcache = Symcache { size: 77, sha256: ContentHash([8; 32]), version: 1 };
    objects::mark_ready(&mut tx, &ContentHash([1; 32]), Quality::Dwarf, None, &symcache).await.unwrap();
    objects::mark_rejected(&mut tx, &ContentHash([2; 32]), objects::ObjectStatus::Malformed, "cut off")
        .await
        .unwrap();
    let skipped = [SkippedMember { path: "link\0".into(), reason: "link".into(), detail: Some("\0".into()) }];
    uploads::mark_done(&mut tx, id, &skipped).await.unwrap();
    jobs::complete_job(&mut tx, &leased[0]).await.unwrap();
    tx.commit().await.unwrap();
    let (done, found) = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!((done.status, done.skipped.len()), (uploads::UploadStatus::Done, 1));
    assert_eq!(found[0].object.symcache(), Some(symcache));
    assert_eq!(found[0].object.quality, Quality::Dwarf);
    assert_eq!(found[1].object.reason.as_deref(), Some("cut off"));
    // The same objects again change nothing, and say so.
    database.wait(time::Duration::SECOND);
    let again = upload(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (same, known) =
        objects::record_found(&mut tx, again, &[("c/Shop", &object(1, Some(1)))]).await.unwrap().remove(0);
    assert!(known && same.symcache() == Some(symcache));
    let (_, shown) = uploads::get(&mut tx, again).await.unwrap().unwrap();
    assert!(shown[0].known && shown[0].path == "c/Shop");
    let newest = uploads::by_content(&mut tx, &ContentHash([5; 32])).await.unwrap().unwrap();
    assert_eq!(newest.status, uploads::UploadStatus::Queued);
    uploads::mark_failed(&mut tx, again, "not_an_archive", "no file in it", &[]).await.unwrap();
    assert_eq!(uploads::by_content(&mut tx, &ContentHash([5; 32])).await.unwrap().unwrap().id, id);
    assert_eq!(uploads::list_newest(&mut tx, 10).await.unwrap().len(), 2);
    assert!(uploads::get(&mut tx, UploadId::default()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_slot_follows_what_won_and_a_deletion_counts_as_a_change() {
    let database = Database::new().await;
    let id = upload(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for (content, id_of) in [(1, 1), (2, 1), (3, 3)] {
        objects::record_found(&mut tx, id, &[("Shop", &object(content, Some(id_of)))]).await.unwrap();
    }
    let hash = object(3, Some(3)).content_hash;
    objects::mark_rejected(&mut tx, &hash, objects::ObjectStatus::TooComplex, "memory").await.unwrap();
    let readiness =
        symbols::check_readiness(&mut tx, &[debug_id(1), debug_id(3), debug_id(9)]).await.unwrap();
    let readiness: Vec<_> = readiness.into_iter().map(|(_, readiness)| readiness).collect();
    assert_eq!(readiness, [SymbolReadiness::Building, SymbolReadiness::TooComplex, SymbolReadiness::Missing]);
    tx.commit().await.unwrap();
    assert_eq!(publish(&database, 1, Quality::Symtab).await, 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    // The alias in object storage was written with generation 5 by a builder that died.
    let ahead = slots::PublishedSymbols { generation: 5, ..published(1, Quality::Dwarf) };
    assert_eq!(slots::publish_symbols(&mut tx, &ahead).await.unwrap(), 5);
    assert_eq!(slots::publish_symbols(&mut tx, &ahead).await.unwrap(), 6);
    assert_eq!(symbols::check_readiness(&mut tx, &[debug_id(1)]).await.unwrap()[0].1, SymbolReadiness::Ready);
    let shown = symbols::get(&mut tx, &debug_id(1)).await.unwrap().unwrap();
    assert_eq!((shown.slot.generation, shown.objects.len()), (6, 2));
    assert_eq!(shown.objects.iter().filter(|o| o.active).count(), 1);
    let page = symbols::list_objects(&mut tx, &symbols::ObjectFilter::default(), None, 1).await.unwrap();
    let rest = symbols::list_objects(&mut tx, &symbols::ObjectFilter::default(), page.next, 5).await.unwrap();
    assert_eq!((page.objects.len(), rest.objects.len(), rest.next), (1, 2, None));
    let deleted = symbols::delete_symbols(&mut tx, &debug_id(1)).await.unwrap().unwrap();
    assert_eq!((deleted.generation, deleted.objects.len()), (7, 2));
    assert!(symbols::get(&mut tx, &debug_id(1)).await.unwrap().is_none());
    assert_eq!(
        symbols::check_readiness(&mut tx, &[debug_id(1)]).await.unwrap()[0].1,
        SymbolReadiness::Missing
    );
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(symbols::delete_symbols(&mut tx, &debug_id(1)).await.unwrap().is_none());
    tx.rollback().await.unwrap();
    let purge =
        jobs::lease_jobs(&database.store, &[JobKind::Purge], "w", time::Duration::MINUTE, 1).await.unwrap();
    assert!(matches!(&purge[0].work, Work::Purge { generation: 7, objects, .. } if objects.len() == 2));
    let kinds = database.number("SELECT count(*) FROM outbox WHERE kind = 'symbol_event'").await;
    assert_eq!(kinds, 4);
}

/// Proves: uploads
#[tokio::test]
async fn what_a_failed_upload_has_not_built_goes_unless_another_builds_it() {
    let database = Database::new().await;
    let [a, b] = [upload(&database).await, upload(&database).await];
    let fail = async |id: UploadId| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        usage::lock_usage(&mut tx).await.unwrap();
        uploads::mark_failed(&mut tx, id, "timeout", "not done in time", &[]).await.unwrap();
        let gone = objects::give_up(&mut tx, id).await.unwrap();
        let asked: Vec<_> = [1, 2, 3, 4].map(|n| ContentHash([n; 32])).into();
        let missing = objects::find_missing(&mut tx, &asked).await.unwrap();
        tx.commit().await.unwrap();
        let mut missing: Vec<u8> = missing.into_iter().map(|hash| hash.0[0]).collect();
        missing.sort_unstable();
        (gone, missing)
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for (id, content, debug) in
        [(a, 1, Some(1)), (a, 2, Some(2)), (a, 3, None), (a, 4, Some(4)), (b, 1, Some(1))]
    {
        objects::record_found(&mut tx, id, &[("kit", &object(content, debug))]).await.unwrap();
    }
    objects::mark_building(&mut tx, &ContentHash([2; 32])).await.unwrap();
    objects::mark_rejected(&mut tx, &ContentHash([4; 32]), objects::ObjectStatus::Unsupported, "no")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fail(a).await, (2, vec![2, 3]));
    let purges =
        jobs::lease_jobs(&database.store, &[JobKind::Purge], "w", time::Duration::MINUTE, 9).await.unwrap();
    let of = |debug_id, object: u8| Work::Purge {
        debug_id,
        objects: vec![ContentHash([object; 32])],
        generation: 0,
    };
    let mut purged: Vec<_> = purges.into_iter().map(|job| format!("{:?}", job.work)).collect();
    let mut expected =
        [of(debug_id(2), 2), of(DebugId::from_uuid(crate::Uuid::nil()), 3)].map(|work| format!("{work:?}"));
    purged.sort_unstable();
    expected.sort_unstable();
    assert_eq!(purged, expected);
    assert_eq!(fail(b).await, (1, vec![1, 2, 3]), "the last one that had it");
}

#[tokio::test]
async fn an_upload_counts_as_here_until_one_of_its_objects_is_deleted() {
    let database = Database::new().await;
    let id = upload(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for n in [1, 2] {
        objects::record_found(&mut tx, id, &[("kit", &object(n, Some(n)))]).await.unwrap();
    }
    uploads::mark_done(&mut tx, id, &[]).await.unwrap();
    let here = uploads::by_content(&mut tx, &ContentHash([5; 32])).await.unwrap();
    assert_eq!(here.map(|upload| upload.id), Some(id));
    symbols::delete_symbols(&mut tx, &debug_id(2)).await.unwrap().unwrap();
    let here = uploads::by_content(&mut tx, &ContentHash([5; 32])).await.unwrap();
    assert!(here.is_none(), "the slice that was deleted can come back");
}

#[tokio::test]
async fn an_upload_whose_bytes_never_end_is_found_and_given_up_once() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let stuck = uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    // The oldest come first.
    database.wait(time::Duration::SECOND);
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    let systems = uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(time::Duration::HOUR);
    upload(&database).await;
    let before = database.clock.now() - time::Duration::minutes(30);
    let found = uploads::list_stuck(&database.store, before, 10).await.unwrap();
    assert_eq!(found, [Owner::from(acme()).own(stuck), Owner::System.own(systems)]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(uploads::mark_abandoned(&mut tx, stuck, before).await.unwrap());
    assert!(!uploads::mark_abandoned(&mut tx, stuck, before).await.unwrap());
    let (upload, _) = uploads::get(&mut tx, stuck).await.unwrap().unwrap();
    assert_eq!((upload.status, upload.reason.as_deref()), (uploads::UploadStatus::Failed, Some("abandoned")));
    // Bytes that come after all are refused.
    assert!(!uploads::record_received(&mut tx, stuck, 5, &ContentHash([5; 32])).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(uploads::list_stuck(&database.store, before, 10).await.unwrap().len(), 1);
}
