//! A body that holds a value until its last byte is written.

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A body that holds a value, such as a reservation, until the connection has written all bytes.
pub struct KeptBody<K> {
    body: Body,
    kept: Arc<K>,
}

impl<K: Send + Sync + 'static> KeptBody<K> {
    pub fn wrap(body: Body, kept: K) -> Body {
        Body::new(KeptBody { body, kept: Arc::new(kept) })
    }
}

struct KeptBytes<K> {
    bytes: Bytes,
    _kept: Arc<K>,
}

impl<K> AsRef<[u8]> for KeptBytes<K> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<K: Send + Sync + 'static> HttpBody for KeptBody<K> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_ok(|frame| {
            frame.map_data(|bytes| Bytes::from_owner(KeptBytes { bytes, _kept: self.kept.clone() }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_value_is_kept_until_the_last_byte_is_gone() {
        let kept = Arc::new(());
        let mut body = KeptBody::wrap(Body::from("answer"), kept.clone());
        let mut bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let last = bytes.split_off(5);
        drop(bytes);
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(last);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
