//! An S3 endpoint that answers badly: late, cut off, or not at all. And how many requests it gets.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use unslide_artifacts::{Condition, ObjectStore, Operation, Put, Settings, keys};
use unslide_model::{Secret, TenantId};
use uuid::Uuid;

/// What a server does with each connection after the request's head.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Silence,
    Stall,
    CutOff,
    /// A good status, and nothing of what it should come with.
    Empty,
}

async fn server(answer: Answer) -> ObjectStore {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                assert!(socket.read(&mut head).await.unwrap() > 0);
                let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: \"1\"\r\n\r\nsome bytes";
                match answer {
                    Answer::Silence => {}
                    Answer::Stall => socket.write_all(begun).await.unwrap(),
                    Answer::CutOff => return socket.write_all(begun).await.unwrap(),
                    Answer::Empty => {
                        let empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                        return socket.write_all(empty).await.unwrap();
                    }
                }
                // Until the client gives up.
                while socket.read(&mut head).await.is_ok_and(|read| read > 0) {}
            });
        }
    });
    let settings = Settings {
        endpoint: Some(endpoint),
        bucket: "unslide".into(),
        access_key: Some("access".into()),
        secret_key: Secret::new("secret"),
        path_style: true,
        try_seconds: 1,
        retry_seconds: 1,
        attempts: 3,
        ..Settings::default()
    };
    ObjectStore::s3(&settings).await
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn late_and_cut_off_answers_are_failures_for_now() {
    let key = keys::for_upload(TenantId::new("acme").unwrap().scope(Uuid::nil()));
    let folder = tempfile::tempdir().unwrap();
    for answer in [Answer::Silence, Answer::Stall, Answer::CutOff] {
        let store = server(answer).await;
        let path = folder.path().join("object");
        let get = async {
            (store.get(&key, 1 << 20).await.map(drop), store.get_to_file(&key, &path, 1 << 20).await)
        };
        // Far more than the settings allow: without them it never ends.
        let (got, written) = tokio::time::timeout(Duration::from_secs(60), get).await.expect("an end");
        let (got, written) = (got.unwrap_err(), written.unwrap_err());
        assert!(got.is_transient() && written.is_transient(), "{answer:?}: {got} / {written}");
        assert!(!path.exists(), "{answer:?}");
        let stats = store.stats();
        assert_eq!((stats.running, stats.waiting), (0, 0), "{answer:?}");
    }
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_a_silent_store_ends_with_all_its_tries() {
    let key = keys::for_upload(TenantId::new("acme").unwrap().scope(Uuid::nil()));
    let store = server(Answer::Silence).await;
    let large = tokio::io::repeat(7).take(20 << 20);
    let absent = Put { condition: Condition::Absent, ..Put::default() };
    let whole = Put::default();
    // Also the question whether it was written has an end.
    let writes = Box::pin(async {
        tokio::join!(store.put(&key, "a".into(), &absent), store.put_stream(&key, large, 1 << 30, &whole))
    });
    let (small, parts) = tokio::time::timeout(Duration::from_secs(60), writes).await.expect("an end");
    assert!(small.is_err_and(|error| error.is_transient()));
    assert!(parts.is_err_and(|error| error.is_transient()));
}

/// An upload that is begun without an id can never take a part.
///
/// Proves: outages
#[tokio::test]
async fn an_answer_without_its_fields_is_a_failure_for_now() {
    let acme = TenantId::new("acme").unwrap();
    let key = keys::for_upload(acme.scope(Uuid::nil()));
    let store = server(Answer::Empty).await;
    let failures = [
        store.put(&key, "bytes".into(), &Put::default()).await.map(drop),
        store.get(&key, 10).await.map(drop),
        store.head(&key).await.map(drop),
        store.list(&keys::tenant_prefix(&acme), None, 10).await.map(drop),
        store.begin_parts(&key).await.map(drop),
        store.put_part(&key, "1", 1, "part".into()).await.map(drop),
        store.complete_parts(&key, "1", &["tag".into()], 4).await,
    ];
    for failure in failures {
        let failure = failure.unwrap_err();
        assert!(failure.is_transient(), "{failure}");
    }
}

#[tokio::test]
async fn requests_at_the_same_time_are_bounded() {
    let (store, memory) = ObjectStore::memory_with(&Settings { requests: 2, ..Settings::default() });
    let key = keys::for_upload(TenantId::new("acme").unwrap().scope(Uuid::nil()));
    let hold = memory.hold(Operation::Get, "");
    let getting: Vec<_> = (0..5)
        .map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { store.get(&key, 10).await })
        })
        .collect();
    while memory.call_count(Operation::Get) < 2 || store.stats().waiting < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!((memory.call_count(Operation::Get), store.stats().running), (2, 2));
    drop(hold);
    for got in getting {
        assert!(got.await.unwrap().unwrap().is_none());
    }
    let stats = store.stats();
    assert_eq!((stats.requests, stats.running, stats.waiting, stats.transient), (5, 0, 0, 0));
    // A download has its place until its last byte.
    store.put(&key, "bytes".into(), &Put::default()).await.unwrap();
    let download = store.open(&key).await.unwrap().unwrap();
    assert_eq!(store.stats().running, 1);
    drop(download);
    assert_eq!(store.stats().running, 0);
}
