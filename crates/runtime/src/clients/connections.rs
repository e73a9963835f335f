//! Connections of clients: accepting them, and draining them at shutdown.

use prometheus::IntGauge;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Before the next connection is accepted, after one could not be.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Accepts the next connection. Returns it with the address of its other end.
pub async fn accept_connection(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer.ip()),
            Err(error) => {
                // The process has no file descriptors left, or the connection was already gone: the listener itself works.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

/// The tasks that serve the connections of a listener.
#[derive(Clone, Debug, Default)]
pub struct ConnectionTasks {
    tasks: TaskTracker,
    finish: CancellationToken,
    abort: CancellationToken,
}

impl ConnectionTasks {
    /// Returns the token that is cancelled when connections are to end after their running requests.
    #[must_use]
    pub fn finish_token(&self) -> CancellationToken {
        self.finish.clone()
    }

    /// Serves a connection, which `open` counts until its task ends or is cut off.
    pub fn spawn(&self, open: IntGauge, serving: impl Future<Output = ()> + Send + 'static) {
        let abort = self.abort.clone();
        self.tasks.spawn(async move {
            open.inc();
            tokio::select! {
                () = serving => {}
                () = abort.cancelled() => {}
            }
            open.dec();
        });
    }

    /// Waits at most `drain` for running requests to end, and cuts off the rest.
    pub async fn drain(self, drain: Duration) {
        self.finish.cancel();
        self.tasks.close();
        if tokio::time::timeout(drain, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                connections.open = self.tasks.len(),
                "requests were cut off at the end of the drain time"
            );
            self.abort.cancel();
            self.tasks.wait().await;
        }
    }
}
