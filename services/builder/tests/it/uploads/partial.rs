//! Uploads in parts that nobody completes, or with parts that differ from the announcement.
//! Proves: uploads

use crate::builder_fixture::{World, acme};
use bytes::Bytes;
use std::time::Duration;
use unslide_artifacts::{Put, keys};
use unslide_model::{ContentHash, Owner};
use unslide_store::partial::{self, Announced, Partial, UploadPart};
use unslide_store::uploads::{self, UploadStatus};
use unslide_store::{erasure, usage};
use unslide_testkit::fixtures::dsym;

impl World {
    /// An upload of which one part of two has come.
    async fn half(&self, owner: &Owner) -> Partial {
        let mut tx = self.store.owner(owner).await.unwrap();
        let id = partial::new_id(&mut tx).await.unwrap();
        let key = keys::for_upload(owner.own(id));
        let multipart_id = self.objects.begin_parts(&key).await.unwrap();
        let etag = self.objects.put_part(&key, &multipart_id, 1, Bytes::from_static(b"half")).await.unwrap();
        let content_hash = ContentHash([5; 32]);
        let announced = Announced { file_name: None, app: None, size: 8, content_hash, part_bytes: 4 };
        let half = Partial { id, announced, multipart_id };
        partial::begin_upload(&mut tx, &half).await.unwrap();
        assert!(partial::record_part(&mut tx, id, &UploadPart { number: 1, etag }).await.unwrap());
        tx.commit().await.unwrap();
        half
    }

    /// Returns the ids of multipart uploads that the S3 endpoint keeps: it has a folder for each.
    fn unfinished(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder().join("s3/.uploads")).unwrap();
        files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    async fn until_cleared(&self) {
        while !self.unfinished().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_goes_on_with_is_given_up_and_its_parts_go() {
    let mut world = World::start(0).await;
    // Every upload that is there when the builder starts has waited too long.
    world.config.builder.receiving_seconds = 0;
    let owner = Owner::from(acme());
    let (own, systems, failed) =
        (world.half(&owner).await, world.half(&Owner::System).await, world.half(&owner).await);
    // An api that gave one up could not take its parts away.
    let mut tx = world.store.owner(&owner).await.unwrap();
    assert!(uploads::given_up(&mut tx, failed.id, "symbol-quota", "no room").await.unwrap());
    tx.commit().await.unwrap();
    // Another died when it had taken them away and not noted that.
    let gone = world.half(&owner).await;
    world.objects.abort_parts(&keys::for_upload(acme().scope(gone.id)), &gone.multipart_id).await.unwrap();
    assert!(world.unfinished().len() >= 3, "{:?}", world.unfinished());
    world.builder();
    for (owner, id) in [(&owner, own.id), (&Owner::System, systems.id)] {
        let (upload, _) = world.wait_for_upload(owner, id).await;
        assert_eq!((upload.status, upload.reason.as_deref()), (UploadStatus::Failed, Some("abandoned")));
    }
    world.until_cleared().await;
    for owner in [&owner, &Owner::System] {
        loop {
            let mut tx = world.store.owner(owner).await.unwrap();
            let left = usage::read_symbol_bytes(&mut tx).await.unwrap().pending;
            tx.rollback().await.unwrap();
            if left == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let (upload, _) = world.wait_for_upload(&owner, failed.id).await;
    assert_eq!(upload.reason.as_deref(), Some("symbol-quota"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenants_parts_go_with_it_and_no_others() {
    let mut world = World::start(0).await;
    let (_, systems) = (world.half(&acme().into()).await, world.half(&Owner::System).await);
    let before = world.unfinished().len();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    world.builder();
    let finished = async || {
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        let erasure = erasure::get(&mut tx).await.unwrap();
        tx.rollback().await.unwrap();
        erasure.is_some_and(|erasure| erasure.finished_at.is_some())
    };
    while !finished().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = world.unfinished();
    assert_eq!(left.len() * 2, before, "{left:?}");
    assert!(left.iter().any(|name| name.contains(&systems.multipart_id)), "{left:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_the_one_announced_fails_and_says_so() {
    let world = World::start(1).await;
    let file = std::fs::read(dsym("app")).unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let id = uploads::create_upload(&mut tx, Some("app"), None).await.unwrap();
    let key = keys::for_upload(acme().scope(id));
    let stored = world.objects.put_stream(&key, &file[..], 1 << 30, &Put::default()).await.unwrap();
    uploads::record_received(&mut tx, id, stored.size, &ContentHash([5; 32])).await.unwrap();
    tx.commit().await.unwrap();
    let (upload, objects) = world.wait(id).await;
    assert_eq!((upload.status, upload.reason.as_deref()), (UploadStatus::Failed, Some("upload_changed")));
    let detail = upload.detail.unwrap();
    for hash in [stored.sha256, ContentHash([5; 32])] {
        assert!(detail.contains(&hash.to_string()), "{detail}");
    }
    assert!(objects.is_empty());
    world.stop().await;
}
