//! The bodies of answers.

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Frame, SizeHint};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// The bytes of a file that are read at once.
const READ_BYTES: u64 = 512 << 10;

pub(super) type S3Answer = Response<Body>;

/// The body of an answer.
pub(super) enum Body {
    Bytes(Option<Bytes>),
    File(FileRange),
}

/// A range of a file that is read piece by piece, one ahead of the client.
pub(super) struct FileRange {
    file: Arc<File>,
    start: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Body {
    pub(super) fn empty() -> Body {
        Body::Bytes(None)
    }

    pub(super) fn from_text(text: String) -> Body {
        Body::Bytes(Some(text.into()))
    }

    /// Reads a range of a file: at once if it is short, else while it is sent.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(super) fn from_file(file: File, start: u64, end: u64) -> io::Result<Body> {
        if end - start <= READ_BYTES {
            return Ok(Body::Bytes(Some(read_range(&file, start, end)?)));
        }
        Ok(Body::File(FileRange { file: Arc::new(file), start, end, reading: None }))
    }
}

fn read_range(file: &File, start: u64, end: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes.into())
}

impl FileRange {
    fn read_next(&mut self) {
        let (file, start) = (Arc::clone(&self.file), self.start);
        self.start = self.end.min(start + READ_BYTES);
        let end = self.start;
        self.reading =
            (start < end).then(|| tokio::task::spawn_blocking(move || read_range(&file, start, end)));
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.reading.is_none() {
            self.read_next();
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(context)).map_err(io::Error::other).flatten();
        self.read_next();
        Poll::Ready(Some(read))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Body::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::File(range) => range.poll_next(context).map(|next| next.map(|read| read.map(Frame::data))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::File(_) => SizeHint::default(),
        }
    }
}
