//! The least pace at which clients have to send and to take bytes: one that waits for more time than
//! it may, or passes a byte now and then, would hold a connection, a place or memory without end.

use hyper::rt::{Read, ReadBufCursor, Write};
use prometheus::IntCounter;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How many bytes have to pass while a client is waited for. Only the waiting counts: what the service
/// itself takes long for is no fault of the client.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    stall: Duration,
    bytes: u64,
    waited: Duration,
    moved: u64,
}

impl Pace {
    /// A client may be waited for `stall` before `bytes` have passed.
    #[must_use]
    pub fn new(stall: Duration, bytes: u64) -> Pace {
        Pace { stall, bytes, waited: Duration::ZERO, moved: 0 }
    }

    /// How long the client may be waited for now.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.stall.saturating_sub(self.waited)
    }

    /// Counts a wait and the bytes that passed at its end.
    pub fn moved(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.bytes {
            *self = Pace::new(self.stall, self.bytes);
        }
    }

    /// What is said of a client that is slower.
    #[must_use]
    pub fn complaint(&self) -> String {
        format!("fewer than {} bytes in {} s", self.bytes, self.stall.as_secs())
    }
}

/// A connection whose client has to take what is written to it.
pub struct Paced<S> {
    stream: S,
    pace: Pace,
    /// Since when a write waits.
    since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
    stalled: IntCounter,
}

impl<S> Paced<S> {
    /// Wraps a connection; counts in `stalled` where it ends for being too slow.
    pub fn new(stream: S, pace: Pace, stalled: IntCounter) -> Paced<S> {
        let alarm = Box::pin(tokio::time::sleep(pace.left()));
        Paced { stream, pace, since: None, alarm, stalled }
    }

    /// What a write comes to: an error where it has waited for too long.
    fn paced(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = written {
            let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
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
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client does not take what is sent")))
    }
}

impl<S: Read + Unpin> Read for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: Write + Unpin> Write for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.paced(context, written)
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
    use hyper_util::rt::TokioIo;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, DuplexStream};

    const STALL: Duration = Duration::from_secs(30);

    fn paced(bytes: u64) -> (Paced<TokioIo<DuplexStream>>, DuplexStream, IntCounter) {
        let (server, client) = tokio::io::duplex(1_000);
        let stalled = IntCounter::new("stalled", "Stalled connections.").unwrap();
        (Paced::new(TokioIo::new(server), Pace::new(STALL, bytes), stalled.clone()), client, stalled)
    }

    /// Writes to the end, or until it fails.
    async fn write(to: &mut Paced<TokioIo<DuplexStream>>, mut bytes: usize) -> io::Result<()> {
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
