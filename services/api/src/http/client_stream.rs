//! The connection of a client, as hyper reads and writes it.
//!
//! A client that takes its answers too slowly is cut off. And a request whose head hyper refuses is
//! answered with problem details: no service sees it, so hyper writes a bare status and closes the
//! connection. What is written between two exchanges is hyper's own, and its head is completed here.

use crate::http::problem::{Kind, MEDIA_TYPE, Problem};
use crate::limits::pace::ClientPace;
use axum::body::Bytes;
use bytes::Buf;
use http::StatusCode;
use hyper::rt::{Read, ReadBufCursor, Write};
use prometheus::IntCounter;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep};

/// What is under way on one connection. Its clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Exchange(Arc<ExchangeState>);

#[derive(Debug, Default)]
struct ExchangeState {
    /// Requests whose answer's body is not written yet: several where a client does not wait for answers.
    open: AtomicU32,
    /// The head of an answer may not be written yet.
    unflushed: AtomicBool,
}

/// Ends an exchange when it is dropped.
#[derive(Debug)]
pub struct ExchangeEnd(Exchange);

impl Exchange {
    /// A request goes to the service. The exchange ends with what is returned.
    #[must_use]
    pub fn begin(&self) -> ExchangeEnd {
        self.0.open.fetch_add(1, Ordering::AcqRel);
        ExchangeEnd(self.clone())
    }

    /// True where what is written is not the service's.
    fn is_idle(&self) -> bool {
        self.0.open.load(Ordering::Acquire) == 0 && !self.0.unflushed.load(Ordering::Acquire)
    }

    /// All that hyper had is written.
    fn flushed(&self) {
        if self.0.open.load(Ordering::Acquire) == 0 {
            self.0.unflushed.store(false, Ordering::Release);
        }
    }
}

impl Drop for ExchangeEnd {
    fn drop(&mut self) {
        self.0.0.unflushed.store(true, Ordering::Release);
        self.0.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A client's connection.
pub struct ClientStream<S> {
    stream: S,
    pace: ClientPace,
    /// Since when a write waits.
    since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
    stalled: IntCounter,
    exchange: Exchange,
    /// What is left to write of the head and body that stand in for hyper's.
    refusal: Option<Bytes>,
}

impl<S: Write + Unpin> ClientStream<S> {
    /// Wraps a connection whose service tells `exchange` of each request and answer; counts in `stalled`
    /// where the client takes its answers more slowly than `pace`.
    pub fn new(stream: S, exchange: Exchange, pace: ClientPace, stalled: IntCounter) -> ClientStream<S> {
        let alarm = Box::pin(tokio::time::sleep(pace.left()));
        ClientStream { stream, pace, since: None, alarm, stalled, exchange, refusal: None }
    }

    /// Writes at the client's pace: an error where it was waited for too long.
    fn paced(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = write(Pin::new(&mut self.stream), context) {
            let waited = self.since.take().map_or_else(Default::default, |since| since.elapsed());
            self.pace.moved(waited, outcome.as_ref().map_or(0, |bytes| *bytes as u64));
            return Poll::Ready(outcome);
        }
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.alarm.as_mut().reset(now + self.pace.left());
        }
        ready!(self.alarm.as_mut().poll(context));
        self.stalled.inc();
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client does not take its answer")))
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
        if self.refusal.is_none() && self.exchange.is_idle() {
            self.refusal = explained(bytes);
        }
        let Some(mut refusal) = self.refusal.take() else {
            return self.paced(context, |stream, context| stream.poll_write(context, bytes));
        };
        while !refusal.is_empty() {
            match self.paced(context, |stream, context| stream.poll_write(context, &refusal)) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => refusal.advance(written),
                unfinished => {
                    self.refusal = Some(refusal);
                    return unfinished;
                }
            }
        }
        self.refusal = Some(refusal);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.refusal.is_some() || self.exchange.is_idle() {
            let head = pieces.iter().find(|piece| !piece.is_empty());
            return self.poll_write(context, head.map_or(&[], |head| head));
        }
        self.paced(context, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        // hyper flushes after it has written all that it has.
        self.exchange.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A bare head of hyper with the problem that its status stands for; `None` for anything else.
fn explained(bare: &[u8]) -> Option<Bytes> {
    let head = std::str::from_utf8(bare).ok()?.strip_suffix("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let status = StatusCode::from_u16(status).ok().filter(StatusCode::is_client_error)?;
    let problem = Problem::bare(Kind::of_status(status)).text(None);
    let kept = head.split("\r\n").filter(|line| !line.starts_with("content-length"));
    let mut text: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    text.push_str(&format!(
        "content-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\n\r\n",
        problem.len()
    ));
    let mut answer = text.into_bytes();
    answer.extend(problem);
    Some(answer.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::rt::TokioIo;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, DuplexStream};

    const STALL: Duration = Duration::from_secs(30);

    fn paced(bytes: u64) -> (ClientStream<TokioIo<DuplexStream>>, DuplexStream, IntCounter) {
        let (server, client) = tokio::io::duplex(1_000);
        let stalled = IntCounter::new("stalled", "Stalled connections.").unwrap();
        let exchange = Exchange::default();
        // What is written is an answer.
        std::mem::forget(exchange.begin());
        let pace = ClientPace::new(STALL, bytes);
        (ClientStream::new(TokioIo::new(server), exchange, pace, stalled.clone()), client, stalled)
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
