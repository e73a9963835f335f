//! The connection of a client, as hyper reads and writes it. It cuts off clients that receive responses too
//! slowly, and sends problem details in response to unreadable requests.

use super::connections::ClientConnection;
use super::unreadable_request;
use crate::limits::pace::ClientPace;
use bytes::{Buf, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};
use prometheus::IntCounter;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep};

pub struct ClientStream<S> {
    stream: S,
    client: ClientConnection,
    pace: ClientPace,
    /// When the current write began to wait.
    since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
    stalled: IntCounter,
    /// Remaining bytes of the response that replaces hyper's own.
    replacement: Bytes,
}

impl<S: Write + Unpin> ClientStream<S> {
    /// Wraps a connection; `stalled` counts the clients that receive more slowly than `pace`.
    pub fn new(
        stream: S,
        client: ClientConnection,
        pace: ClientPace,
        stalled: IntCounter,
    ) -> ClientStream<S> {
        let alarm = Box::pin(tokio::time::sleep(pace.time_left()));
        ClientStream { stream, client, pace, since: None, alarm, stalled, replacement: Bytes::new() }
    }

    /// Writes at the client's pace. Returns an error after it has waited too long.
    fn write_paced(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = write(Pin::new(&mut self.stream), context) {
            let waited = self.since.take().map_or_else(Default::default, |since| since.elapsed());
            self.pace.record_progress(waited, outcome.as_ref().map_or(0, |bytes| *bytes as u64));
            return Poll::Ready(outcome);
        }
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.alarm.as_mut().reset(now + self.pace.time_left());
        }
        ready!(self.alarm.as_mut().poll(context));
        self.stalled.inc();
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client does not take its answer")))
    }

    /// Writes problem details if these bytes are hyper's own response. Returns `None` if they are the
    /// application's, as they are while a request is answered. Until all is written, hyper calls again with
    /// the same bytes.
    fn write_replacement(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if self.replacement.is_empty() {
            let replacement = unreadable_request::with_problem(bytes)?;
            if self.client.has_request() {
                return None;
            }
            self.replacement = replacement;
        }
        while !self.replacement.is_empty() {
            let left = self.replacement.clone();
            match self.write_paced(context, |stream, context| stream.poll_write(context, &left)) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => self.replacement.advance(written),
                unfinished => return Some(unfinished),
            }
        }
        Some(Poll::Ready(Ok(bytes.len())))
    }
}

impl<S: Read + Unpin> Read for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: Write + Unpin> Write for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(replaced) = self.write_replacement(context, bytes) {
            return replaced;
        }
        self.write_paced(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [bytes] = pieces
            && let Some(replaced) = self.write_replacement(context, bytes)
        {
            return replaced;
        }
        self.write_paced(context, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::server::connections::Connections;
    use hyper_util::rt::TokioIo;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, DuplexStream};

    const STALL: Duration = Duration::from_secs(30);

    fn client() -> ClientConnection {
        Connections::new(1, 1).open_connection(None).unwrap().client().clone()
    }

    fn paced(bytes: u64) -> (ClientStream<TokioIo<DuplexStream>>, DuplexStream, IntCounter) {
        let (server, browser) = tokio::io::duplex(1_000);
        let stalled = IntCounter::new("stalled", "Stalled connections.").unwrap();
        let pace = ClientPace::new(STALL, bytes);
        (ClientStream::new(TokioIo::new(server), client(), pace, stalled.clone()), browser, stalled)
    }

    /// Writes to the end, or until it fails.
    async fn write(to: &mut ClientStream<TokioIo<DuplexStream>>, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            let piece = vec![0; bytes.min(500)];
            let writing = poll_fn(|context| Pin::new(&mut *to).poll_write(context, &piece));
            bytes -= tokio::time::timeout(10 * STALL, writing).await.unwrap()?;
        }
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (mut server, _client, stalled) = paced(100);
        write(&mut server, 1_000).await.unwrap();
        assert_eq!(write(&mut server, 1).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(stalled.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_now_and_then_is_given_up_and_a_slow_one_is_not() {
        for (each, survives) in [(1, false), (49, false), (50, true)] {
            let (mut server, mut client, stalled) = paced(100);
            let reading = tokio::spawn(async move {
                let mut piece = vec![0; each];
                loop {
                    tokio::time::sleep(Duration::from_secs(14)).await;
                    client.read_exact(&mut piece).await.unwrap();
                }
            });
            assert_eq!(write(&mut server, 3_000).await.is_ok(), survives, "{each}");
            assert_eq!(stalled.get(), u64::from(!survives), "{each}");
            reading.abort();
        }
    }

    /// A connection that is kept open between answers has not waited for its client.
    #[tokio::test(start_paused = true)]
    async fn time_between_answers_does_not_count() {
        let (mut server, mut client, _) = paced(1_000_000);
        for _ in 0..5 {
            let (written, read) = tokio::join!(write(&mut server, 1_500), async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 1_500]).await
            });
            written.unwrap();
            read.unwrap();
            tokio::time::sleep(10 * STALL).await;
        }
    }
}
