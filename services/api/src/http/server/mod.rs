//! Accepts connections, and drains them at shutdown.

mod client_stream;
mod connections;
mod unreadable_request;

pub use connections::ClientConnection;

use crate::http::kept_body::KeptBody;
use crate::http::question::CallerQuestion;
use crate::limits::pace::ClientPace;
use crate::metrics::ConnectionMetrics;
use axum::Router;
use axum::body::Body;
use client_stream::ClientStream;
use connections::{Connections, OpenConnection};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use unslide_runtime::clients::{ConnectionTasks, Network, TrustedProxies, accept_connection};

/// Unsent bytes that the kernel may buffer for a client, so that a client that stops reading is noticed
/// within seconds.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 << 10;

/// Limits and timeouts of connections.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Maximum number of open connections. If all are busy, further ones wait in the listener's backlog.
    pub limit: usize,
    /// Maximum number of open connections of one network that have not sent a valid key.
    pub per_network: usize,
    /// Proxies that are trusted to name the clients of their requests.
    pub proxies: TrustedProxies,
    /// How long a request's head may take to arrive, for each request.
    pub head: Duration,
    /// How fast a client must receive its responses.
    pub pace: ClientPace,
    pub metrics: ConnectionMetrics,
}

/// Address of the other end of a request's connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// The client's address, for the log: as a trusted proxy names it, or the connection's.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// Serves `app` on `listener` until `stop`, then waits at most `drain` for running requests to end.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    settings: ConnectionSettings,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let tasks = ConnectionTasks::default();
    let connections = Connections::new(settings.limit, settings.per_network);
    tokio::pin!(stop);
    loop {
        let next = next(&listener, &connections, &settings.proxies);
        let (stream, open, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = next => accepted,
        };
        let connection = serve_connection(
            stream,
            peer,
            open.client().clone(),
            app.clone(),
            settings.clone(),
            tasks.finish_token(),
        );
        let evicted = settings.metrics.evicted.clone();
        tasks.spawn(settings.metrics.open.clone(), async move {
            tokio::select! {
                () = connection => {}
                () = open.wait_for_eviction() => evicted.inc(),
            }
        });
    }
    drop(listener);
    tasks.drain(drain).await;
}

/// Accepts the next connection once there is room for it.
async fn next(
    listener: &TcpListener,
    connections: &Connections,
    proxies: &TrustedProxies,
) -> (TcpStream, OpenConnection, IpAddr) {
    let (stream, peer) = accept_connection(listener).await;
    let network = (!proxies.is_trusted(peer)).then(|| Network::from_address(peer));
    loop {
        if let Some(open) = connections.open_connection(network) {
            return (stream, open, peer);
        }
        connections.wait_for_change().await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: IpAddr,
    client: ClientConnection,
    app: Router,
    settings: ConnectionSettings,
    finish: CancellationToken,
) {
    // Responses are written whole: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    bound_unsent(&stream);
    let proxies = settings.proxies.is_trusted(peer).then_some(settings.proxies);
    let stream =
        ClientStream::new(TokioIo::new(stream), client.clone(), settings.pace, settings.metrics.stalled);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let forwarded = proxies.as_ref().and_then(|proxies| proxies.forwarded_for(request.headers()));
        request.extensions_mut().insert(Peer(peer));
        // Others could learn from the answer which keys are valid, and leave no trace.
        if proxies.is_some()
            && let Some(question) = CallerQuestion::from_headers(request.headers())
        {
            request.extensions_mut().insert(question);
        }
        request.extensions_mut().insert(ClientAddress(forwarded.unwrap_or(peer)));
        // A proxy's own address is that of no client.
        if let Some(address) = forwarded.or_else(|| proxies.is_none().then_some(peer)) {
            request.extensions_mut().insert(Network::from_address(address));
        }
        answer_request(
            app.clone(),
            request.map(Body::new),
            client.clone(),
            forwarded.map(Network::from_address),
        )
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    tokio::select! {
        // The client decides how a connection ends; requests are logged one by one.
        _ = connection.as_mut() => {}
        () = finish.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Limits the kernel's send buffer, so that a client that stops reading is noticed soon.
#[cfg(target_os = "linux")]
fn bound_unsent(stream: &TcpStream) {
    // If this cannot be set, the client is noticed later.
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES);
}

#[cfg(not(target_os = "linux"))]
fn bound_unsent(_: &TcpStream) {}

/// Marks a request that has no key and exceeds its network's limit. The application refuses it.
#[derive(Clone, Copy, Debug)]
pub struct Crowded;

/// Answers one request. The connection is busy until the response is written.
fn answer_request(
    app: Router,
    mut request: Request<Body>,
    client: ClientConnection,
    proxied: Option<Network>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
    let counted = client.begin_request(proxied);
    if counted.is_none() {
        request.extensions_mut().insert(Crowded);
    }
    request.extensions_mut().insert(client);
    async move {
        let response = app.oneshot(request).await?;
        Ok(response.map(|body| KeptBody::wrap(body, counted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Longer than anything here takes.
    const LONG: Duration = Duration::from_secs(60);

    fn limits(limit: usize) -> ConnectionSettings {
        let metrics = ConnectionMetrics::new(&prometheus::Registry::new()).unwrap();
        let (pace, head) = (ClientPace::new(LONG, 1), LONG);
        let (per_network, proxies) = (limit, TrustedProxies::default());
        ConnectionSettings { limit, per_network, proxies, head, pace, metrics }
    }

    async fn server(
        app: Router,
        limits: ConnectionSettings,
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
        let (address, stop, task) = server(Router::new().route("/", slow), limits(8), LONG).await;
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
    async fn a_request_that_cannot_be_read_is_answered_with_problem_details() {
        let app = Router::new().route("/", get(|| async { "done" }));
        let (address, stop, task) = server(app, limits(8), LONG).await;
        let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(70_000));
        let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "a: b\r\n".repeat(200));
        for (request, status, slug) in [
            ("GET / HTTP/9.9\r\n\r\n", 400, "invalid-request"),
            ("GET / HTTP/1.1\r\nho st: a\r\n\r\n", 400, "invalid-request"),
            (&long, 414, "uri-too-long"),
            (&many, 431, "head-too-large"),
        ] {
            for before in [false, true] {
                let mut stream = TcpStream::connect(address).await.unwrap();
                if before {
                    stream = send(address, "/").await;
                    assert!(answered(&mut stream).await);
                }
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert_eq!(
                    (&body["type"], &body["status"]),
                    (&format!("/problems/{slug}").into(), &status.into())
                );
            }
        }
        stop.cancel();
        task.await.unwrap();
    }

    /// Answers `/` at once, and others when the test says so; each request has a valid key.
    fn keyed(begun: Arc<tokio::sync::Notify>, go_on: Arc<tokio::sync::Notify>) -> Router {
        let known = async |axum::Extension(client): axum::Extension<ClientConnection>| {
            client.mark_authenticated();
            "done"
        };
        let waiting = move |axum::Extension(client): axum::Extension<ClientConnection>| async move {
            client.mark_authenticated();
            begun.notify_one();
            go_on.notified().await;
            "waited"
        };
        Router::new().route("/", get(known)).route("/wait", get(waiting))
    }

    async fn until(gauge: &prometheus::IntGauge, value: i64) {
        let wait = async {
            while gauge.get() != value {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, wait).await.unwrap();
    }

    async fn answered(stream: &mut TcpStream) -> bool {
        let mut answer = [0; 1024];
        let read = tokio::time::timeout(LONG, stream.read(&mut answer)).await.unwrap();
        read.is_ok_and(|read| answer[..read].starts_with(b"HTTP/1.1 200"))
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_for_one_to_end() {
        let (begun, go_on) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let limits = limits(1);
        let (open, evicted) = (limits.metrics.open.clone(), limits.metrics.evicted.clone());
        let (address, stop, task) = server(keyed(begun.clone(), go_on.clone()), limits, LONG).await;
        let mut first = send(address, "/wait").await;
        begun.notified().await;
        let mut second = send(address, "/").await;
        let nothing = tokio::time::timeout(Duration::from_millis(100), second.read(&mut [0; 1])).await;
        assert!(nothing.is_err() && evicted.get() == 0);
        go_on.notify_one();
        // Answered, it stays open for another request, and makes way for the second one.
        assert!(answered(&mut first).await && answered(&mut second).await);
        assert_eq!(first.read(&mut [0; 1]).await.unwrap_or(0), 0);
        drop(second);
        stop.cancel();
        task.await.unwrap();
        assert_eq!((open.get(), evicted.get()), (0, 1));
    }

    /// Connections that ask for nothing, many more than there may be: who has a key is answered at
    /// once, and keeps its connection.
    #[tokio::test]
    async fn connections_without_a_key_make_way_for_those_with_one() {
        let limits = ConnectionSettings { per_network: 4, ..limits(16) };
        let open = limits.metrics.open.clone();
        let (address, stop, task) = server(keyed(Arc::default(), Arc::default()), limits, LONG).await;
        let mut tenant = send(address, "/").await;
        assert!(answered(&mut tenant).await);
        let mut idle = Vec::new();
        for _ in 0..40 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut other = send(address, "/").await;
        assert!(answered(&mut other).await);
        // Three of the address without a key, and two that have one.
        until(&open, 5).await;
        tenant.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert!(answered(&mut tenant).await);
        stop.cancel();
        drop((idle, other, tenant));
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_trusted_proxy_names_the_client_of_each_request() {
        let named = get(async |axum::Extension(client): axum::Extension<ClientAddress>| client.0.to_string());
        let app = Router::new().route("/", named);
        let forwarded = "x-forwarded-for: 192.0.2.1\r\n";
        for (proxies, header, client) in [
            (&["127.0.0.0/8"][..], forwarded, "192.0.2.1"),
            (&["127.0.0.0/8"][..], "", "127.0.0.1"),
            (&[][..], forwarded, "127.0.0.1"),
        ] {
            let limits =
                ConnectionSettings { proxies: TrustedProxies::from_networks(proxies).unwrap(), ..limits(8) };
            let (address, stop, task) = server(app.clone(), limits, LONG).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{header}connection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with(&format!("\r\n\r\n{client}")), "{header}{answer}");
            stop.cancel();
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_trusted_proxy_has_no_bound_by_address() {
        let proxies = TrustedProxies::from_networks(&["127.0.0.0/8"]).unwrap();
        let limits = ConnectionSettings { per_network: 2, proxies, ..limits(16) };
        let (open, evicted) = (limits.metrics.open.clone(), limits.metrics.evicted.clone());
        let (address, stop, task) = server(keyed(Arc::default(), Arc::default()), limits, LONG).await;
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        until(&open, 8).await;
        assert_eq!(evicted.get(), 0);
        stop.cancel();
        drop(idle);
        task.await.unwrap();
    }

    /// A client that does not read its answer keeps its place for a while only.
    /// Proves: bounded-input
    #[tokio::test]
    async fn a_client_that_takes_no_answer_makes_room_for_another() {
        let endless = |axum::Extension(client): axum::Extension<ClientConnection>| async move {
            client.mark_authenticated();
            "x".repeat(64 << 20)
        };
        let app = Router::new().route("/", get(endless)).route("/short", get(|| async { "done" }));
        let mut limits = limits(1);
        limits.pace = ClientPace::new(Duration::from_millis(200), 16 << 10);
        let stalled = limits.metrics.stalled.clone();
        let (address, stop, task) = server(app, limits, LONG).await;
        let mut never_reads_on = send(address, "/").await;
        // Its request has a valid key: it does not make way.
        never_reads_on.read_exact(&mut [0; 12]).await.unwrap();
        let mut second = send(address, "/short").await;
        let answered = async { second.read(&mut [0; 1024]).await.unwrap() };
        assert!(tokio::time::timeout(LONG, answered).await.unwrap() > 0);
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
        tokio::time::timeout(LONG, task).await.unwrap().unwrap();
    }
}
