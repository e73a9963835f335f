//! Accepts connections of clients, and drains them at shutdown.

use crate::client_stream::TimedStream;
use crate::door::Door;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use unslide_runtime::clients::{ConnectionTasks, Network, accept_connection};
use unslide_runtime::fairness::{Exhausted, FairPermit, FairSemaphore};

/// Open connections of clients.
const CONNECTIONS_LIMIT: u32 = 8_192;
/// Those of one network that is no trusted proxy's.
const CONNECTIONS_PER_NETWORK: u32 = 256;
/// How long the head of a request may take to arrive, and an idle connection may wait for one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// Headers of a request.
const HEADERS_LIMIT: usize = 100;
/// How long a client may take nothing of its answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves on `listener` until `stop`, then waits at most `drain` for running requests to end.
pub async fn serve(listener: TcpListener, door: Arc<Door>, stop: impl Future<Output = ()>, drain: Duration) {
    let tasks = ConnectionTasks::default();
    let connections = FairSemaphore::new("connections", CONNECTIONS_LIMIT, CONNECTIONS_PER_NETWORK);
    tokio::pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = accept_connection(&listener) => accepted,
        };
        let Ok(permit) = take_permit(&connections, &door, peer) else {
            door.metrics.count_refused("connection");
            continue;
        };
        let connection = serve_connection(stream, peer, door.clone(), tasks.finish_token());
        tasks.spawn(door.metrics.connections.clone(), async move {
            connection.await;
            drop(permit);
        });
    }
    drop(listener);
    tasks.drain(drain).await;
}

fn take_permit(
    connections: &FairSemaphore<Network>,
    door: &Door,
    peer: IpAddr,
) -> Result<FairPermit<Network>, Exhausted> {
    match door.proxies.is_trusted(peer) {
        true => connections.try_acquire_unassigned(1),
        false => connections.try_acquire(&Network::from_address(peer), 1),
    }
}

async fn serve_connection(stream: TcpStream, peer: IpAddr, door: Arc<Door>, finish: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(TimedStream::new(stream, STALL_TIMEOUT));
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(door.answer_request(request, peer).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS_LIMIT)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    tokio::select! {
        // The client decides how a connection ends.
        _ = connection.as_mut() => {}
        () = finish.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
