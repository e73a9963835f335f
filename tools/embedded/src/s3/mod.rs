//! An S3 endpoint in the process, on a folder.
//!
//! It serves PutObject, GetObject, HeadObject, DeleteObject, ListObjectsV2, HeadBucket, and uploads in parts; `NotImplemented`
//! answers everything else. Buckets are the folders in its folder.

mod body;
mod body_headers;
mod chunked;
mod error;
mod folder;
mod listing;
mod multipart;
mod names;
mod objects;
mod receive;
mod request;
mod service;
mod signature;
#[cfg(test)]
mod tests;
mod xml;

use crate::error::{AtPath, Error};
use crate::place::{kept, private_folder};
use crate::ports;
use crate::random::random_text;
use error::S3Error;
use folder::Folder;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use service::S3Service;
use signature::AccessKeys;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// How long requests may take to finish when the endpoint stops.
const DRAIN: Duration = Duration::from_secs(5);

/// A running S3 endpoint (path style, any region).
pub struct S3Endpoint {
    url: String,
    /// The access key id that a client signs its requests with; the same over restarts, as is the secret.
    pub access_key: String,
    pub secret_key: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl S3Endpoint {
    /// Serves the folder `data/s3` with one bucket, and creates the bucket if there is none. Uses the port of
    /// the run before, or a free one. Each line of the file `s3-credentials` is a valid access key; the first is its own.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be used or no port is free.
    pub fn start(data: &Path, bucket: &str) -> Result<S3Endpoint, Error> {
        let root = data.join("s3");
        private_folder(&root)?;
        private_folder(&root.join(bucket))?;
        let secrets = kept(&data.join("s3-credentials"), || {
            Ok(format!("{} {}{}", random_text()?, random_text()?, random_text()?))
        })?;
        let keys = secrets.lines().map(|line| line.split_once(' ').unwrap_or((line, line)));
        let keys: Vec<_> = keys.map(|(id, secret)| (id.to_owned(), secret.to_owned())).collect();
        let (access_key, secret_key) = keys.first().cloned().unwrap_or_default();
        let keys = AccessKeys(HashMap::from_iter(keys));
        let service = Arc::new(S3Service { folder: Arc::new(Folder::open(&root)?), keys });
        let kept = data.join("s3-port");
        let listener = ports::listen(None, &kept)?;
        let address = listener.local_addr().at("listen on", &kept)?;
        listener.set_nonblocking(true).at("listen on", &kept)?;
        let listener = TcpListener::from_std(listener).at("listen on", &kept)?;
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(serve(listener, service, stopped));
        Ok(S3Endpoint { url: format!("http://{address}"), access_key, secret_key, stop, running })
    }

    /// Returns the URL that it listens on.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Lets running requests finish for a few seconds, then ends.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.running.await;
    }
}

async fn serve(listener: TcpListener, service: Arc<S3Service>, mut stopped: oneshot::Receiver<()>) {
    let (tell, told) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection(socket, Arc::clone(&service), told.clone()));
                }
                // Out of file descriptors, most likely: some will come back.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    drop(tell);
    let _ = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
}

/// Serves one connection until its client closes it, or to the end of its request once the server stops.
async fn connection(socket: TcpStream, service: Arc<S3Service>, mut told: watch::Receiver<()>) {
    // Small answers should not wait for more to send.
    let _ = socket.set_nodelay(true);
    // A request that was begun is finished even if the client goes away, as in any object storage.
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = tokio::spawn(service::answer(Arc::clone(&service), request));
        async move { answer.await.map_err(std::io::Error::other) }
    });
    let serving = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // A client that went away is no concern of the endpoint.
        _ = serving.as_mut() => return,
        _ = told.changed() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

/// Runs something that reads or writes files on a thread that may block.
async fn run_blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, S3Error> + Send + 'static,
) -> Result<T, S3Error> {
    tokio::task::spawn_blocking(run).await.map_err(std::io::Error::other)?
}
