//! A way to a server that is closed at first, for outages.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Starts a gate. While it is closed, connections are accepted and dropped. Returns its port, and the place for the address of the
/// server that opens it.
pub async fn start_gate() -> (u16, watch::Sender<Option<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = watch::Sender::new(None::<String>);
    let opened = server.subscribe();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let address = opened.borrow().clone();
            if let Some(address) = address {
                let mut server = TcpStream::connect(address).await.unwrap();
                tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
            }
        }
    });
    (port, server)
}
