//! What every object store must do, run over each backend.

use super::s3_server::S3Server;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio::io::AsyncReadExt;
use unslide_artifacts::keys::{self, ObjectKey, Prefix};
use unslide_artifacts::{Condition, Fault, ObjectStore, Operation, PART_BYTES, Put, Settings, StorageError};
use unslide_model::{ContentHash, Secret, TenantId};
use uuid::Uuid;

/// Removes everything under a prefix, which is little; says how much.
pub async fn clear(store: &ObjectStore, prefix: &Prefix) -> usize {
    let page = store.list(prefix, None, 1_000).await.unwrap();
    assert!(page.next.is_none());
    for entry in &page.entries {
        store.delete(&entry.key).await.unwrap();
    }
    page.entries.len()
}

/// Small enough that parts have their usual size.
const LIMIT: u64 = 1 << 30;

fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn key(n: u128) -> ObjectKey {
    keys::for_upload(tenant().scope(Uuid::from_u128(n)))
}

fn sha256(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

/// `again` is the same bucket through another value, as another process has it.
async fn suite(store: ObjectStore, again: ObjectStore) {
    store.check().await.unwrap();
    parts(&store, &again).await;
    whole_objects(&store).await;
    ranges(&store).await;
    conditions(&store).await;
    streams(&store).await;
    files(&store).await;
    listing_and_deleting(&store).await;
}

async fn whole_objects(store: &ObjectStore) {
    let (a, missing) = (key(1), key(2));
    assert!(store.get(&missing, 10).await.unwrap().is_none());
    assert!(store.head(&missing).await.unwrap().is_none());
    assert!(store.get_range(&missing, 0..1).await.unwrap().is_none());
    let put = Put { metadata: BTreeMap::from([("quality".into(), "4".into())]), ..Put::default() };
    let etag = store.put(&a, Bytes::from_static(b"first"), &put).await.unwrap();
    let object = store.get(&a, 5).await.unwrap().unwrap();
    assert_eq!((&*object.bytes, object.head.size), (&b"first"[..], 5));
    assert_eq!(object.head.metadata, put.metadata);
    assert_eq!(object.head.etag, etag);
    assert_eq!(store.head(&a).await.unwrap().unwrap(), object.head);
    assert!(matches!(store.get(&a, 4).await, Err(StorageError::TooLarge { limit: 4, .. })));
    let second = store.put(&a, Bytes::from_static(b"second"), &Put::default()).await.unwrap();
    assert_ne!(second, etag);
    let object = store.get(&a, 100).await.unwrap().unwrap();
    assert_eq!((&*object.bytes, object.head.metadata.len()), (&b"second"[..], 0));
    let empty = key(3);
    store.put(&empty, Bytes::new(), &Put::default()).await.unwrap();
    assert_eq!(store.get(&empty, 0).await.unwrap().unwrap().bytes, Bytes::new());
}

async fn ranges(store: &ObjectStore) {
    let a = key(10);
    store.put(&a, Bytes::from_static(b"0123456789"), &Put::default()).await.unwrap();
    assert_eq!(&*store.get_range(&a, 2..5).await.unwrap().unwrap(), b"234");
    assert_eq!(&*store.get_range(&a, 8..100).await.unwrap().unwrap(), b"89");
    assert!(matches!(store.get_range(&a, 10..12).await, Err(StorageError::Range { .. })));
    assert!(matches!(store.get_range(&a, 3..3).await, Err(StorageError::Range { .. })));
}

async fn conditions(store: &ObjectStore) {
    let a = key(20);
    let absent = Put { condition: Condition::Absent, ..Put::default() };
    let first = store.put(&a, Bytes::from_static(b"1"), &absent).await.unwrap();
    let lost = store.put(&a, Bytes::from_static(b"2"), &absent).await;
    assert!(matches!(lost, Err(StorageError::Precondition { .. })), "{lost:?}");
    let unchanged = Put { condition: Condition::Unchanged(first), ..Put::default() };
    store.put(&a, Bytes::from_static(b"3"), &unchanged).await.unwrap();
    let lost = store.put(&a, Bytes::from_static(b"4"), &unchanged).await;
    assert!(matches!(lost, Err(StorageError::Precondition { .. })), "{lost:?}");
    store.delete(&a).await.unwrap();
    let gone = store.put(&a, Bytes::from_static(b"5"), &unchanged).await;
    assert!(matches!(gone, Err(StorageError::Precondition { .. })), "{gone:?}");
    assert!(store.head(&a).await.unwrap().is_none());
}

async fn streams(store: &ObjectStore) {
    for (n, size) in [(30, 0), (31, 1000), (32, PART_BYTES), (33, 2 * PART_BYTES + 17)] {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let put = Put { metadata: BTreeMap::from([("n".into(), n.to_string())]), ..Put::default() };
        let stored = store.put_stream(&key(n), &bytes[..], 1 << 30, &put).await.unwrap();
        assert_eq!((stored.size, stored.sha256), (size as u64, sha256(&bytes)));
        let object = store.get(&key(n), 1 << 30).await.unwrap().unwrap();
        assert!(object.bytes == bytes, "{size} bytes");
        assert_eq!(object.head.metadata, put.metadata, "{size} bytes");
    }
    // Too large, within the first part and after it; and a source that breaks.
    let many = || tokio::io::repeat(7).take(u64::MAX);
    for limit in [100, PART_BYTES as u64 + 100] {
        let failed = store.put_stream(&key(34), many(), limit, &Put::default()).await;
        assert!(matches!(failed, Err(StorageError::TooLarge { .. })), "{failed:?}");
    }
    let broken = many().take(PART_BYTES as u64 + 1).chain(Broken);
    let failed = store.put_stream(&key(34), broken, LIMIT, &Put::default()).await;
    assert!(matches!(failed, Err(StorageError::Source(_))), "{failed:?}");
    assert!(store.head(&key(34)).await.unwrap().is_none());
    // A condition holds for parts too.
    let absent = Put { condition: Condition::Absent, ..Put::default() };
    let source = many().take(PART_BYTES as u64 + 1);
    let lost = store.put_stream(&key(31), source, u64::MAX, &absent).await;
    assert!(matches!(lost, Err(StorageError::Precondition { .. })), "{lost:?}");
    assert_eq!(store.head(&key(31)).await.unwrap().unwrap().size, 1000);
}

/// A multipart upload goes on wherever its id is known.
async fn parts(store: &ObjectStore, again: &ObjectStore) {
    let a = key(50);
    let part = |byte: u8, size: usize| Bytes::from(vec![byte; size]);
    // The least that S3 takes for any part but the last.
    let whole = 5 << 20;
    let id = store.begin_parts(&a).await.unwrap();
    let last = again.put_part(&a, &id, 3, part(3, 17)).await.unwrap();
    store.put_part(&a, &id, 1, part(9, whole)).await.unwrap();
    let tags = [
        again.put_part(&a, &id, 1, part(1, whole)).await.unwrap(),
        store.put_part(&a, &id, 2, part(2, whole)).await.unwrap(),
        last,
    ];
    assert!(store.head(&a).await.unwrap().is_none(), "parts are no object");
    let size = 2 * whole as u64 + 17;
    again.complete_parts(&a, &id, &tags, size).await.unwrap();
    let object = store.get(&a, size).await.unwrap().unwrap();
    let bytes = [part(1, whole), part(2, whole), part(3, 17)].concat();
    assert!(object.bytes == bytes, "the last of each number, in their order");
    // The answer was lost, or its caller died: done again it is done.
    store.complete_parts(&a, &id, &tags, size).await.unwrap();
    store.complete_parts(&a, &id, &tags, size + 1).await.unwrap_err();
    store.put_part(&a, &id, 1, part(1, 17)).await.unwrap_err();
    assert_eq!(store.head(&a).await.unwrap().unwrap().size, size);

    let b = key(51);
    let id = store.begin_parts(&b).await.unwrap();
    let tag = store.put_part(&b, &id, 1, part(1, 17)).await.unwrap();
    again.abort_parts(&b, &id).await.unwrap();
    // Told apart from what may pass, and from what an operator has to mend: all of it is begun again.
    for gone in [
        store.put_part(&b, &id, 1, part(1, 17)).await.map(drop),
        store.complete_parts(&b, &id, &[tag], 17).await,
    ] {
        assert!(matches!(gone, Err(StorageError::Unfinished { .. })), "{gone:?}");
    }
    store.abort_parts(&b, &id).await.unwrap();
    assert!(store.head(&b).await.unwrap().is_none());
}

struct Broken;

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
    }
}

async fn files(store: &ObjectStore) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, b"content").unwrap();
    store.put_file(&key(40), &from, &Put::default()).await.unwrap();
    let fetched = store.get_to_file(&key(40), &to, 7).await.unwrap().unwrap();
    assert_eq!((fetched.head.size, fetched.sha256), (7, sha256(b"content")));
    assert_eq!(std::fs::read(&to).unwrap(), b"content");
    std::fs::remove_file(&to).unwrap();
    let failed = store.get_to_file(&key(40), &to, 6).await;
    assert!(matches!(failed, Err(StorageError::TooLarge { .. })));
    assert!(!to.exists(), "a file that was begun is removed");
    assert!(store.get_to_file(&key(41), &to, 6).await.unwrap().is_none());
    assert!(!to.exists());
}

async fn listing_and_deleting(store: &ObjectStore) {
    let other = TenantId::new("acme-2").unwrap();
    let theirs = keys::for_upload(other.scope(Uuid::from_u128(1)));
    store.put(&theirs, Bytes::from_static(b"theirs"), &Put::default()).await.unwrap();
    let id = "0f1e2d3c4b5a69788796a5b4c3d2e1f0".parse().unwrap();
    let symbols = keys::for_symbols(tenant().scope(id));
    let ours = [symbols.debuginfo(), symbols.alias(1), symbols.symcache(1, &ContentHash([7; 32]))];
    for key in &ours {
        store.put(key, Bytes::from_static(b"x"), &Put::default()).await.unwrap();
    }
    let page = store.list(&symbols.prefix(), None, 2).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|e| e.key.clone()).collect();
    assert_eq!(keys, ours[..2]);
    let rest = store.list(&symbols.prefix(), page.next.as_ref(), 2).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next), (1, None));
    assert_eq!((&rest.entries[0].key, rest.entries[0].size), (&ours[2], 1));
    assert_eq!(clear(store, &symbols.prefix()).await, 3);
    assert!(store.list(&symbols.prefix(), None, 10).await.unwrap().entries.is_empty());
    store.delete(&ours[0]).await.unwrap();
    assert!(clear(store, &keys::tenant_prefix(&tenant())).await > 5);
    assert!(store.head(&theirs).await.unwrap().is_some(), "another tenant's objects stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_passes_the_suite() {
    let server = S3Server::start();
    suite(ObjectStore::s3(&server.settings).await, ObjectStore::s3(&server.settings).await).await;
}

#[tokio::test]
async fn memory_passes_the_suite() {
    let (store, memory) = ObjectStore::memory();
    suite(store.clone(), store).await;
    assert_eq!(memory.unfinished_upload_count(), 0, "no multipart upload is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_fault_is_never_a_missing_object() {
    let server = S3Server::start();
    let no_bucket = Settings { bucket: "nowhere".into(), ..server.settings.clone() };
    let wrong_key = Settings { secret_key: Secret::new("wrong"), ..server.settings.clone() };
    for settings in [no_bucket, wrong_key] {
        let store = ObjectStore::s3(&settings).await;
        let get = store.get(&key(1), 10).await.unwrap_err();
        let head = store.head(&key(1)).await.unwrap_err();
        let check = store.check().await.unwrap_err();
        for error in [get, head, check] {
            assert!(error.is_operators_fault() && !error.is_transient(), "{error}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_transient() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let settings = Settings {
        endpoint: Some(endpoint),
        bucket: "unslide".into(),
        access_key: Some("access".into()),
        secret_key: Secret::new("secret"),
        path_style: true,
        ..Settings::default()
    };
    let error = ObjectStore::s3(&settings).await.get(&key(1), 10).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn memory_fails_where_it_is_switched_to() {
    let (store, memory) = ObjectStore::memory();
    memory.fail(Operation::Put, "uploads", Fault::Transient, Some(1));
    let source = || tokio::io::repeat(1).take(3 * PART_BYTES as u64);
    assert!(store.put_stream(&key(1), source(), LIMIT, &Put::default()).await.unwrap_err().is_transient());
    store.put_stream(&key(1), source(), LIMIT, &Put::default()).await.unwrap();
    memory.fail(Operation::Get, "", Fault::Refused, None);
    assert!(store.get(&key(1), u64::MAX).await.unwrap_err().is_operators_fault());
    memory.heal();
    assert!(store.get(&key(1), u64::MAX).await.unwrap().is_some());
    assert_eq!((memory.call_count(Operation::Get), memory.unfinished_upload_count()), (2, 0));
}

#[tokio::test]
async fn a_part_that_was_replaced_is_not_there_any_more() {
    let (store, memory) = ObjectStore::memory();
    let id = store.begin_parts(&key(1)).await.unwrap();
    let part = || Bytes::from_static(b"part");
    let old = store.put_part(&key(1), &id, 1, part()).await.unwrap();
    let new = store.put_part(&key(1), &id, 1, part()).await.unwrap();
    let failed = store.complete_parts(&key(1), &id, &[old], 4).await;
    assert!(matches!(failed, Err(StorageError::Unfinished { .. })), "{failed:?}");
    store.complete_parts(&key(1), &id, &[new], 4).await.unwrap();
    assert_eq!(memory.unfinished_upload_count(), 0);
}

#[tokio::test]
async fn a_stream_that_is_dropped_half_way_leaves_nothing() {
    let (store, memory) = ObjectStore::memory();
    let (mut client, source) = tokio::io::duplex(1 << 20);
    let putting =
        tokio::spawn(async move { store.put_stream(&key(1), source, LIMIT, &Put::default()).await });
    tokio::io::AsyncWriteExt::write_all(&mut client, &vec![1; PART_BYTES + 1]).await.unwrap();
    while memory.unfinished_upload_count() == 0 {
        tokio::task::yield_now().await;
    }
    putting.abort();
    assert!(putting.await.unwrap_err().is_cancelled());
    while memory.unfinished_upload_count() > 0 {
        tokio::task::yield_now().await;
    }
}
