//! Uploads in parts: what is noted of them, until their end.
//! Proves: uploads

use crate::partial::{self, Announced, Partial, UploadPart};
use crate::tests::database::{Database, acme, tenant_id};
use crate::uploads::{self, UploadStatus};
use crate::{OwnerTx, StoreError, UploadId, erasure, usage};
use unslide_model::{Clock, ContentHash, Owner};

fn announced(app: Option<&str>) -> Announced {
    Announced {
        file_name: Some("Shop.dSYM.zip".into()),
        app: app.map(str::to_owned),
        size: 25,
        content_hash: ContentHash([5; 32]),
        part_bytes: 10,
    }
}

fn part(number: u32, etag: &str) -> UploadPart {
    UploadPart { number, etag: etag.into() }
}

async fn begin(tx: &mut OwnerTx, app: Option<&str>) -> Partial {
    let id = partial::new_id(tx).await.unwrap();
    let begun = Partial { id, announced: announced(app), multipart_id: format!("multipart-{id}") };
    partial::begin_upload(tx, &begun).await.unwrap();
    begun
}

/// An upload of which one part of three has come.
pub async fn half(tx: &mut OwnerTx) -> Partial {
    let begun = begin(tx, None).await;
    assert!(partial::record_part(tx, begun.id, &part(2, "b")).await.unwrap());
    begun
}

#[tokio::test]
async fn parts_are_noted_in_any_order_and_the_last_of_a_number_counts() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let begun = half(&mut tx).await;
    for noted in [part(3, "c"), part(1, "a"), part(2, "b2")] {
        assert!(partial::record_part(&mut tx, begun.id, &noted).await.unwrap());
    }
    let parts = partial::list_parts(&mut tx, begun.id).await.unwrap();
    assert_eq!(parts, [part(1, "a"), part(2, "b2"), part(3, "c")]);
    assert_eq!(partial::get(&mut tx, begun.id).await.unwrap(), Some(begun.clone()));
    // Once it is whole there is nothing left but the upload.
    assert!(partial::end_upload(&mut tx, begun.id).await.unwrap());
    assert!(!partial::end_upload(&mut tx, begun.id).await.unwrap());
    assert!(uploads::record_received(&mut tx, begun.id, 25, &ContentHash([5; 32])).await.unwrap());
    assert!(!partial::record_part(&mut tx, begun.id, &part(1, "d")).await.unwrap());
    assert_eq!(partial::get(&mut tx, begun.id).await.unwrap(), None);
    let (upload, _) = uploads::get(&mut tx, begun.id).await.unwrap().unwrap();
    assert_eq!((upload.status, upload.file_name.as_deref()), (UploadStatus::Queued, Some("Shop.dSYM.zip")));
    assert!(!partial::record_part(&mut tx, UploadId::default(), &part(1, "a")).await.unwrap());
}

#[tokio::test]
async fn an_open_upload_is_found_by_its_bytes_its_app_and_its_owner() {
    let database = Database::new().await;
    let find = async |owner: &Owner, app: Option<&str>, size| {
        let mut tx = database.store.owner(owner).await.unwrap();
        let hash = ContentHash([5; 32]);
        partial::find_upload(&mut tx, app, &hash, size).await.unwrap().map(|partial| partial.id)
    };
    let owner = Owner::from(acme());
    let mut tx = database.store.owner(&owner).await.unwrap();
    let (none, shop) = (begin(&mut tx, None).await.id, begin(&mut tx, Some("shop")).await.id);
    tx.commit().await.unwrap();
    assert_eq!(find(&owner, None, 25).await, Some(none));
    assert_eq!(find(&owner, Some("shop"), 25).await, Some(shop));
    assert_eq!(find(&owner, Some("other"), 25).await, None);
    assert_eq!(find(&owner, None, 24).await, None);
    for other in [Owner::System, tenant_id("umbrella").into()] {
        assert_eq!(find(&other, None, 25).await, None);
        let mut tx = database.store.owner(&other).await.unwrap();
        assert_eq!(partial::get(&mut tx, none).await.unwrap(), None);
        assert!(!partial::record_part(&mut tx, none, &part(1, "theirs")).await.unwrap());
        assert!(!partial::end_upload(&mut tx, none).await.unwrap());
        assert_eq!(partial::count_uploads(&mut tx).await.unwrap(), 0);
    }
    // The bytes are not there yet: nobody is pointed to them.
    let mut tx = database.store.owner(&owner).await.unwrap();
    assert!(uploads::by_content(&mut tx, &ContentHash([5; 32])).await.unwrap().is_none());
    assert!(uploads::given_up(&mut tx, none, "upload_lost", "gone").await.unwrap());
    assert!(!uploads::given_up(&mut tx, none, "again", "gone").await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(find(&owner, None, 25).await, None);
}

#[tokio::test]
async fn what_is_announced_counts_as_used_until_its_parts_are_gone() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let begun = half(&mut tx).await;
    assert_eq!(usage::read_symbol_bytes(&mut tx).await.unwrap().pending, 25);
    assert!(uploads::given_up(&mut tx, begun.id, "abandoned", "late").await.unwrap());
    assert_eq!(usage::read_symbol_bytes(&mut tx).await.unwrap().pending, 25, "its parts are still there");
    assert_eq!(
        (
            partial::count_uploads(&mut tx).await.unwrap(),
            partial::list_uploads(&mut tx, 9).await.unwrap().len()
        ),
        (1, 1)
    );
    partial::end_upload(&mut tx, begun.id).await.unwrap();
    assert_eq!(usage::read_symbol_bytes(&mut tx).await.unwrap().pending, 0);
    // Whole, it counts once.
    let begun = half(&mut tx).await;
    partial::end_upload(&mut tx, begun.id).await.unwrap();
    uploads::record_received(&mut tx, begun.id, 25, &ContentHash([5; 32])).await.unwrap();
    assert_eq!(usage::read_symbol_bytes(&mut tx).await.unwrap().pending, 25);
}

/// Each part is a sign of life, and what has failed is found for as long as its parts are there.
#[tokio::test]
async fn an_upload_is_stuck_when_no_part_has_come_for_a_while() {
    let database = Database::new().await;
    let stuck = async || {
        let before = database.clock.now() - time::Duration::minutes(30);
        (uploads::list_stuck(&database.store, before, 10).await.unwrap(), before)
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let begun = half(&mut tx).await;
    tx.commit().await.unwrap();
    database.wait(time::Duration::minutes(40));
    let (found, before) = stuck().await;
    assert_eq!(found, [Owner::from(acme()).own(begun.id)]);
    // It goes on in the very moment.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(partial::record_part(&mut tx, begun.id, &part(1, "a")).await.unwrap());
    assert!(!uploads::mark_abandoned(&mut tx, begun.id, before).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(stuck().await.0, []);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(uploads::given_up(&mut tx, begun.id, "upload_lost", "gone").await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(stuck().await.0.len(), 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    partial::end_upload(&mut tx, begun.id).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stuck().await.0, []);
}

#[tokio::test]
async fn a_deleted_tenant_gets_no_part_and_its_parts_are_still_known() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let begun = half(&mut tx).await;
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let refused = partial::record_part(&mut tx, begun.id, &part(1, "a")).await;
    assert!(matches!(refused, Err(StoreError::TenantDeleted)), "{refused:?}");
    drop(tx);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(partial::list_uploads(&mut tx, 10).await.unwrap(), [begun]);
}
