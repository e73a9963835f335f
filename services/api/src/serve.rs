//! Accepting connections, and draining them.

use crate::pace::{Pace, Paced};
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus::{IntCounter, IntGauge};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct Connections {
    /// Open connections at once; further ones wait in the listener's backlog.
    pub limit: usize,
    /// How long a request's head may take to arrive, the first and each next one.
    pub head: Duration,
    /// How fast a client has to take its answers.
    pub pace: Pace,
    /// How many are open.
    pub open: IntGauge,
    /// How many were closed because their client took nothing.
    pub stalled: IntCounter,
}

/// Serves `app` on `listener` until `stop`, then lets running requests end, for `drain` at most.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    connections: Connections,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let tasks = TaskTracker::new();
    let (finish, abort) = (CancellationToken::new(), CancellationToken::new());
    let slots = Arc::new(Semaphore::new(connections.limit));
    tokio::pin!(stop);
    loop {
        let accepted = async {
            // The semaphore is never closed: an error can't come.
            let slot = slots.clone().acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, app.clone(), &connections, finish.clone());
                let (abort, open) = (abort.clone(), connections.open.clone());
                tasks.spawn(async move {
                    open.inc();
                    tokio::select! {
                        () = connection => {}
                        () = abort.cancelled() => {}
                    }
                    open.dec();
                    drop(slot);
                });
            }
            Err(error) => {
                // Out of file descriptors, or a connection that was gone at once: the listener itself is sound.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    drop(listener);
    finish.cancel();
    tasks.close();
    if tokio::time::timeout(drain, tasks.wait()).await.is_err() {
        tracing::warn!(connections.open = tasks.len(), "requests were cut off at the end of the drain time");
        abort.cancel();
        tasks.wait().await;
    }
}

fn connection(
    stream: TcpStream,
    app: Router,
    connections: &Connections,
    finish: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    // Answers are written whole: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let stream = Paced::new(TokioIo::new(stream), connections.pace, connections.stalled.clone());
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.head)
        .serve_connection(stream, TowerToHyperService::new(app));
    async move {
        tokio::pin!(connection);
        tokio::select! {
            // How a connection ends is the client's affair; requests are logged one by one.
            _ = connection.as_mut() => {}
            () = finish.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn limits(limit: usize) -> Connections {
        let open = IntGauge::new("open", "Open connections.").unwrap();
        let stalled = IntCounter::new("stalled", "Stalled connections.").unwrap();
        let pace = Pace::new(Duration::from_secs(60), 1);
        Connections { limit, head: Duration::from_secs(60), pace, open, stalled }
    }

    async fn server(
        app: Router,
        limits: Connections,
        drain: Duration,
    ) -> (std::net::SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task =
            tokio::spawn(async move { serve(listener, app, limits, stopped.cancelled_owned(), drain).await });
        (address, stop, task)
    }

    async fn send(address: std::net::SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_running_request_ends_before_the_server_does() {
        let begun = Arc::new(tokio::sync::Notify::new());
        let notify = begun.clone();
        let slow = get(|| async move {
            notify.notify_one();
            tokio::time::sleep(Duration::from_millis(100)).await;
            "done"
        });
        let (address, stop, task) =
            server(Router::new().route("/", slow), limits(8), Duration::from_secs(5)).await;
        let mut stream = send(address, "/").await;
        begun.notified().await;
        stop.cancel();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
        task.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_for_one_to_end() {
        let served = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = served.clone();
        let count = get(|| async move {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            "done"
        });
        let limits = limits(1);
        let open = limits.open.clone();
        let app = Router::new().route("/", count);
        let (address, stop, task) = server(app, limits, Duration::from_secs(5)).await;
        let mut first = send(address, "/").await;
        assert!(first.read(&mut [0; 1024]).await.unwrap() > 0);
        // It stays open for another request. The second one is taken by the listener's backlog only.
        let mut second = send(address, "/").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((served.load(std::sync::atomic::Ordering::SeqCst), open.get()), (1, 1));
        drop(first);
        assert!(second.read(&mut [0; 1024]).await.unwrap() > 0);
        drop(second);
        stop.cancel();
        task.await.unwrap();
        assert_eq!(open.get(), 0);
    }

    /// Whoever asks and does not read keeps its place for a while only.
    #[tokio::test]
    async fn a_client_that_takes_no_answer_makes_room_for_another() {
        let endless = || async { "x".repeat(64 << 20) };
        let app = Router::new().route("/", get(endless)).route("/short", get(|| async { "done" }));
        let mut limits = limits(1);
        limits.pace = Pace::new(Duration::from_millis(200), 16 << 10);
        let stalled = limits.stalled.clone();
        let (address, stop, task) = server(app, limits, Duration::from_secs(5)).await;
        let _never_reads = send(address, "/").await;
        let mut second = send(address, "/short").await;
        let answered = async { second.read(&mut [0; 1024]).await.unwrap() };
        assert!(tokio::time::timeout(Duration::from_secs(20), answered).await.unwrap() > 0);
        assert_eq!(stalled.get(), 1);
        drop(second);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn the_drain_has_an_end() {
        let begun = Arc::new(tokio::sync::Notify::new());
        let notify = begun.clone();
        let stuck = get(|| async move {
            notify.notify_one();
            std::future::pending::<()>().await;
        });
        let (address, stop, task) =
            server(Router::new().route("/", stuck), limits(8), Duration::from_millis(50)).await;
        let _stream = send(address, "/").await;
        begun.notified().await;
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
    }
}
