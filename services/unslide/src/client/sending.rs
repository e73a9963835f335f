//! Sending a body of any size over a connection of any speed: what counts is that it moves.

use super::ClientError;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use reqwest::Body;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// A body of `size` bytes that tells how many of them have not been taken yet.
pub(super) fn watched(
    pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    size: u64,
) -> (Body, watch::Receiver<u64>) {
    let (tell, left) = watch::channel(size);
    let pieces = pieces.inspect_ok(move |piece| {
        tell.send_modify(|left| *left = left.saturating_sub(piece.len() as u64));
    });
    (Body::wrap_stream(pieces), left)
}

/// Waits for a request as long as its body moves, and then for its answer. The answer has the time that
/// the body took, if that is more: the last of it may still lie in buffers of this side.
///
/// # Errors
/// The request's; [`ClientError::Stalled`] and [`ClientError::Silent`].
pub(super) async fn patiently<T>(
    url: &str,
    patience: Duration,
    mut left: watch::Receiver<u64>,
    request: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let begun = Instant::now();
    let mut request = pin!(request);
    while *left.borrow_and_update() > 0 {
        tokio::select! {
            biased;
            done = &mut request => return done,
            moved = timeout(patience, left.changed()) => match moved {
                Ok(Ok(())) => {}
                // The request wants no more of the body.
                Ok(Err(_)) => break,
                Err(_) => return Err(ClientError::Stalled { url: url.to_owned(), seconds: patience.as_secs() }),
            },
        }
    }
    let patience = patience.max(begun.elapsed());
    let silent = || ClientError::Silent { url: url.to_owned(), seconds: patience.as_secs() };
    timeout(patience, request).await.unwrap_or_else(|_| Err(silent()))
}

#[cfg(test)]
mod tests {
    use super::super::{ApiServer, Client};
    use super::*;
    use futures::{StreamExt, stream};
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    const MINUTES: Duration = Duration::from_secs(120);
    /// More than the buffers of both sides of a connection take.
    const BODY: u64 = 24 << 20;
    /// What a slow server reads between two pauses.
    const STEP: usize = 1 << 20;
    const ANSWER: &str = r#"{"id":"7","existing":false}"#;

    /// A client of a server that does so with its first connection.
    async fn client<S, D>(patience: Duration, serve: S) -> Client
    where
        S: FnOnce(TcpStream) -> D + Send + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
        let server = ApiServer { url: Some(url), api_key: Some("key".to_owned()), retry_for: 0 };
        Client::patient(&server, patience).unwrap()
    }

    /// A body whose last byte is its only `!`.
    fn pieces(size: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        const PIECE: u64 = 1 << 18;
        let piece = Bytes::from(vec![0; PIECE as usize]);
        let before = stream::repeat(piece).take((size / PIECE) as usize).map(Ok);
        let mut last = vec![0; (size % PIECE) as usize];
        last.push(b'!');
        before.chain(stream::iter([Ok(Bytes::from(last))]))
    }

    async fn read_slowly(connection: &mut TcpStream, pause: Duration) {
        let mut buffer = vec![0; 64 << 10];
        let mut read = 0;
        loop {
            match connection.read(&mut buffer).await.unwrap() {
                0 => panic!("the client gave up after {read} bytes"),
                length if buffer[..length].ends_with(b"!") => return,
                length => {
                    if (read + length) / STEP > read / STEP {
                        sleep(pause).await;
                    }
                    read += length;
                }
            }
        }
    }

    async fn serve_slowly(mut connection: TcpStream) {
        // In all more than the client's patience.
        read_slowly(&mut connection, Duration::from_millis(400)).await;
        let head = format!("HTTP/1.1 202 Accepted\r\ncontent-length: {}\r\n\r\n", ANSWER.len());
        connection.write_all(format!("{head}{ANSWER}").as_bytes()).await.unwrap();
        // The client ends the connection.
        let _ = connection.read(&mut [0]).await;
    }

    #[tokio::test]
    async fn a_body_that_takes_longer_than_the_patience_and_moves_arrives() {
        let patience = Duration::from_secs(5);
        let whole = client(patience, serve_slowly).await;
        let parts = client(patience, serve_slowly).await;
        let (whole, part) = tokio::join!(
            whole.upload("app.zip", pieces(BODY), BODY + 1, "hash"),
            parts.upload_part("7", 1, pieces(BODY), BODY + 1, "hash"),
        );
        assert_eq!(whole.unwrap().id, "7");
        part.unwrap();
    }

    #[tokio::test]
    async fn a_server_that_takes_nothing_more_is_given_up() {
        let client = client(Duration::from_secs(3), |connection| async move {
            std::future::pending::<()>().await;
            drop(connection);
        });
        let sent = client.await.upload("app.zip", pieces(BODY), BODY + 1, "hash").await;
        assert!(matches!(sent, Err(ClientError::Stalled { .. })), "{sent:?}");
    }

    #[tokio::test]
    async fn a_server_that_takes_everything_and_does_not_answer_is_given_up() {
        let client = client(Duration::from_secs(3), |mut connection| async move {
            read_slowly(&mut connection, Duration::ZERO).await;
            std::future::pending::<()>().await;
        });
        let sent = client.await.upload_part("7", 1, pieces(0), 1, "hash").await;
        assert!(matches!(sent, Err(ClientError::Silent { .. })), "{sent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_standing_still_costs_patience() {
        let begun = Instant::now();
        let (tell, left) = watch::channel(100);
        let hours = patiently("", MINUTES, left, async {
            for _ in 0..100 {
                sleep(MINUTES - Duration::from_secs(1)).await;
                tell.send_modify(|left| *left -= 1);
            }
            // What was taken last drains as slowly.
            sleep(10 * MINUTES).await;
            Ok(())
        });
        hours.await.unwrap();
        assert!(begun.elapsed() > 100 * MINUTES);

        let (tell, left) = watch::channel(100);
        let stuck = patiently("", MINUTES, left, async {
            tell.send_modify(|left| *left -= 1);
            std::future::pending::<Result<(), _>>().await
        });
        assert!(matches!(stuck.await, Err(ClientError::Stalled { seconds: 120, .. })));
    }
}
