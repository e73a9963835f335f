//! Whose connection it is: the socket's peer's, or that of the client which a trusted proxy names in the PROXY protocol.

use super::client_address::{Network, TrustedProxies};
use super::{ClientConnection, ConnectionSettings, proxy_protocol};
use bytes::Bytes;
use std::net::IpAddr;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Where a connection comes from.
pub struct ConnectionSource {
    pub address: IpAddr,
    /// The proxies that are trusted to name the clients of its requests.
    pub proxies: Option<TrustedProxies>,
    /// What was read of it.
    pub first: Bytes,
}

impl ConnectionSource {
    /// Reads what a trusted proxy says first. `None` where the connection is over.
    pub async fn read(
        stream: &mut TcpStream,
        peer: IpAddr,
        client: &ClientConnection,
        settings: &ConnectionSettings,
        finish: &CancellationToken,
    ) -> Option<ConnectionSource> {
        if !settings.proxies.trusts(peer) {
            return Some(ConnectionSource { address: peer, proxies: None, first: Bytes::new() });
        }
        let reading = tokio::time::timeout(settings.head, proxy_protocol::read(stream));
        let read = tokio::select! {
            read = reading => read.ok()?,
            () = finish.cancelled() => return None,
        };
        let (header, first) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(client.address = %peer, %error, "a proxy does not name a connection's client");
                return None;
            }
        };
        // Behind a header, `X-Forwarded-For` is the client's own word, but for that of another proxy which the header names.
        let Some(address) = header.map_or(Some(peer), |header| header.client) else {
            return Some(ConnectionSource { address: peer, proxies: None, first });
        };
        let is_proxy = settings.proxies.trusts(address);
        if !is_proxy {
            client.belongs_to(Network::of(address));
        }
        Some(ConnectionSource { address, proxies: is_proxy.then(|| settings.proxies.clone()), first })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LONG, limits, server};
    use super::super::{ClientAddress, ConnectionSettings, TrustedProxies};
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn the_client_of_a_trusted_proxy_is_the_one_that_it_names() {
        let named = get(async |axum::Extension(client): axum::Extension<ClientAddress>| client.0.to_string());
        let app = Router::new().route("/", named);
        let head = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.1\r\nconnection: close\r\n\r\n";
        let (trusted, none) = (&["127.0.0.0/8"][..], &[][..]);
        for (proxies, before, client) in [
            (trusted, "", "192.0.2.1"),
            // What a proxy of layer 4 passes on is the client's own word, but for another proxy's.
            (trusted, "PROXY TCP4 192.0.2.2 127.0.0.1 50000 443\r\n", "192.0.2.2"),
            (trusted, "PROXY TCP4 127.0.0.9 127.0.0.1 50000 443\r\n", "192.0.2.1"),
            // Where it names no client, it is its own.
            (trusted, "PROXY UNKNOWN\r\n", "127.0.0.1"),
            (trusted, "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "127.0.0.1"),
            (none, "", "127.0.0.1"),
        ] {
            let limits = ConnectionSettings { proxies: TrustedProxies::read(proxies).unwrap(), ..limits(8) };
            let (address, stop, task) = server(app.clone(), limits, LONG).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("{before}{head}").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with(&format!("\r\n\r\n{client}")), "{before}{answer}");
            stop.cancel();
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_proxy_protocol_is_refused_of_a_peer_that_is_no_trusted_proxy() {
        let app = Router::new().route("/", get(|| async { "done" }));
        let (address, stop, task) = server(app, limits(8), LONG).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "PROXY TCP4 192.0.2.2 127.0.0.1 50000 443\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        stop.cancel();
        task.await.unwrap();
    }
}
