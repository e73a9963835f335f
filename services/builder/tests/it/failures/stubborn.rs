//! Object storage that refuses to delete some objects.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const REFUSED: &str = "<Error><Code>AccessDenied</Code><Message>The object is locked.</Message></Error>";

/// Passes everything on but the deletion of objects with a word in their key.
pub struct Stubborn {
    pub url: String,
    pub refuses: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

impl Stubborn {
    pub async fn before(url: &str, word: &'static str) -> Stubborn {
        let storage: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let refuses = Arc::new(AtomicBool::new(true));
        let refusing = refuses.clone();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let refusing = refusing.clone();
                tokio::spawn(async move {
                    // A connection that breaks is the client's to notice.
                    let _ = pass(client, storage, word, &refusing).await;
                });
            }
        });
        Stubborn { url, refuses, serving }
    }
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass(
    client: TcpStream,
    storage: SocketAddr,
    word: &str,
    refuses: &AtomicBool,
) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_storage, mut to_storage) = TcpStream::connect(storage).await?.into_split();
    let (answer, mut answers) = tokio::sync::mpsc::channel::<Vec<u8>>(1);
    let back = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            tokio::select! {
                read = from_storage.read(&mut buffer) => match read? {
                    0 => return Ok::<_, std::io::Error>(()),
                    read => to_client.write_all(&buffer[..read]).await?,
                },
                Some(answer) = answers.recv() => return to_client.write_all(&answer).await,
            }
        }
    });
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from_client.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        let line = buffer[..read].split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        if line.starts_with("DELETE ") && line.contains(word) && refuses.load(Ordering::SeqCst) {
            let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\nconnection: close";
            let text = format!("{head}\r\ncontent-length: {}\r\n\r\n{REFUSED}", REFUSED.len());
            let _ = answer.send(text.into_bytes()).await;
            break;
        }
        to_storage.write_all(&buffer[..read]).await?;
    }
    drop(answer);
    let _ = back.await;
    Ok(())
}
