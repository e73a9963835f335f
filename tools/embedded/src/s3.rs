//! An S3 endpoint in the process, on a folder.

use crate::error::{AtPath, Error};
use crate::place::{kept, private_folder};
use crate::ports;
use crate::random::random_text;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use s3s::access::S3Access;
use s3s::auth::SimpleAuth;
use s3s::dto::{AbortMultipartUploadInput, CompleteMultipartUploadInput, UploadPartInput};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Request, S3Result, s3_error};
use std::path::{Path, PathBuf};
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
        let mut keys = secrets
            .lines()
            .map(|line| line.split_once(' ').unwrap_or((line, line)))
            .map(|(id, secret)| (id.to_owned(), secret.to_owned()));
        let (access_key, secret_key) = keys.next().unwrap_or_default();
        let mut auth = SimpleAuth::from_single(access_key.as_str(), secret_key.as_str());
        for (id, secret) in keys {
            auth.register(id, secret.into());
        }
        let files = s3s_fs::FileSystem::new(&root)
            .map_err(|error| std::io::Error::other(format!("{error:?}")))
            .at("serve", &root)?;
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(auth);
        service.set_access(Uploads { root });
        let kept = data.join("s3-port");
        let listener = ports::listen(None, &kept)?;
        let address = listener.local_addr().at("listen on", &kept)?;
        listener.set_nonblocking(true).at("listen on", &kept)?;
        let listener = TcpListener::from_std(listener).at("listen on", &kept)?;
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(serve(listener, service.build(), stopped));
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

/// Multipart uploads as S3 answers for them: one that is not there is no matter of access, which is
/// what the file system makes of it.
struct Uploads {
    root: PathBuf,
}

impl Uploads {
    /// `s3s-fs` notes each upload in a file of its own, until it is completed or aborted.
    fn check(&self, id: &str) -> S3Result<()> {
        // An id is a part of a file's name here.
        let plain = id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if plain && self.root.join(format!(".upload-{id}.json")).exists() {
            return Ok(());
        }
        Err(s3_error!(NoSuchUpload))
    }
}

#[async_trait::async_trait]
impl S3Access for Uploads {
    async fn upload_part(&self, request: &mut S3Request<UploadPartInput>) -> S3Result<()> {
        self.check(&request.input.upload_id)
    }

    async fn complete_multipart_upload(
        &self,
        request: &mut S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<()> {
        self.check(&request.input.upload_id)
    }

    async fn abort_multipart_upload(
        &self,
        request: &mut S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<()> {
        self.check(&request.input.upload_id)
    }
}

async fn serve(listener: TcpListener, service: S3Service, mut stopped: oneshot::Receiver<()>) {
    let (tell, told) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection(socket, service.clone(), told.clone()));
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
async fn connection(socket: TcpStream, service: S3Service, mut told: watch::Receiver<()>) {
    // Small answers should not wait for more to send.
    let _ = socket.set_nodelay(true);
    // What was begun is done, as in any object storage, even if the client goes away: a file and what is known of it are
    // two writes here.
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = tokio::spawn(Service::call(&service, request));
        async move { answer.await?.map_err(std::io::Error::other) }
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
