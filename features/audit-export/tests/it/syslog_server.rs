//! A server of syslog over TLS: it reads frames until the sender closes, and keeps their messages.

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use unslide_world::wait_until;

/// The certificate of the authority that has signed the server's.
pub const AUTHORITY: &str = include_str!("../fixtures/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/server.pem");
const KEY: &[u8] = include_bytes!("../fixtures/server-key.pem");

/// How a server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It reads everything, and closes the TLS session.
    Close,
    /// It reads everything, and closes the connection without a close of TLS.
    CloseWithoutTls,
    /// It is killed after the first bytes.
    Kill,
    /// It reads everything, and never closes.
    Never,
}

pub struct SyslogServer {
    messages: Arc<Mutex<Vec<String>>>,
    ending: Arc<Mutex<Ending>>,
    running: JoinHandle<()>,
    pub port: u16,
}

impl SyslogServer {
    pub async fn start() -> SyslogServer {
        SyslogServer::start_at(0).await
    }

    /// Starts a server at a port: one that was there before.
    pub async fn start_at(port: u16) -> SyslogServer {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind(("0.0.0.0", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (messages, ending) = (Arc::default(), Arc::new(Mutex::new(Ending::Close)));
        let (kept, how) = (Arc::clone(&messages), Arc::clone(&ending));
        let running = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(take_stream(acceptor.clone(), tcp, Arc::clone(&kept), *how.lock()));
            }
        });
        SyslogServer { messages, ending, running, port }
    }

    pub fn end_with(&self, ending: Ending) {
        *self.ending.lock() = ending;
    }

    /// Stops listening.
    pub async fn stop(self) -> Vec<String> {
        self.running.abort();
        let _ = self.running.await;
        self.messages.lock().clone()
    }

    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().clone()
    }

    /// Returns the entries in the messages.
    pub fn entries(&self) -> Vec<Value> {
        let parse = |message: &String| {
            let (_, json) = message.split_once(" {").unwrap();
            serde_json::from_str(&format!("{{{json}")).unwrap()
        };
        self.messages().iter().map(parse).collect()
    }

    /// Waits until it has this many messages.
    pub async fn wait_for_entries(&self, count: usize) -> Vec<Value> {
        assert!(wait_until(async || self.messages().len() >= count).await, "{:?}", self.messages());
        self.entries()
    }
}

async fn take_stream(
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    messages: Arc<Mutex<Vec<String>>>,
    ending: Ending,
) {
    // A client that does not trust the certificate ends the handshake.
    let Ok(mut stream) = acceptor.accept(tcp).await else { return };
    let mut bytes = Vec::new();
    if ending == Ending::Kill {
        let mut first = [0; 16];
        stream.read_exact(&mut first).await.unwrap();
        let (tcp, _) = stream.into_inner();
        // As the kernel ends the connection of a killed process that has not read all.
        tcp.set_zero_linger().unwrap();
        return;
    }
    stream.read_to_end(&mut bytes).await.unwrap();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').unwrap();
        let count: usize = std::str::from_utf8(&rest[..space]).unwrap().parse().unwrap();
        messages.lock().push(String::from_utf8(rest[space + 1..=space + count].to_vec()).unwrap());
        rest = &rest[space + 1 + count..];
    }
    match ending {
        Ending::Close => stream.shutdown().await.unwrap(),
        Ending::Never => std::future::pending().await,
        Ending::CloseWithoutTls | Ending::Kill => {}
    }
}
