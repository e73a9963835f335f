//! The connection of a client, which is cut off if the client takes nothing of its answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream of which no write waits for longer than a time.
pub struct TimedStream<S> {
    stream: S,
    timeout: Duration,
    alarm: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S: AsyncWrite + Unpin> TimedStream<S> {
    /// Wraps a connection.
    pub fn new(stream: S, timeout: Duration) -> TimedStream<S> {
        TimedStream { stream, timeout, alarm: Box::pin(tokio::time::sleep(timeout)), is_waiting: false }
    }

    fn poll_in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(outcome) = poll(Pin::new(&mut self.stream), context) {
            self.is_waiting = false;
            return Poll::Ready(outcome);
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.alarm.as_mut().reset(Instant::now() + self.timeout);
        }
        ready!(self.alarm.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_in_time(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_in_time(context, |stream, context| stream.poll_write_vectored(context, pieces))
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_off_and_a_slow_one_is_not() {
        let (server, mut client) = tokio::io::duplex(10);
        let mut server = TimedStream::new(server, Duration::from_secs(60));
        let reading = tokio::spawn(async move {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                client.read_exact(&mut [0; 10]).await.unwrap();
            }
            client
        });
        server.write_all(&[0; 100]).await.unwrap();
        let _client = reading.await.unwrap();
        let error = server.write_all(&[0; 11]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
