//! Request bodies: read in chunks, with limits on bytes and time.

use crate::limits::capacity::Capacity;
use crate::limits::charge::Charge;
use crate::limits::pace::ClientPace;
use crate::limits::permits::Reservation;
use crate::problem::{Kind, Problem};
use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use futures::{Stream, stream};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::io::Read;
use tokio::time::Instant;
use unslide_model::TenantId;
use unslide_runtime::job_bytes;

/// Announced bytes for which memory is allocated at once, for each byte that has come.
const ROOM_FACTOR: u64 = 7;

/// Returns the most bytes that `unpacked` bytes take as gzip or zstd, for a limit on bytes that are still packed. What does not
/// compress is longer packed than unpacked: a fast encoder writes it with fixed codes, of up to 9 bits a byte (RFC 1951 §3.2.6).
#[must_use]
pub fn packed_limit(unpacked: u64) -> u64 {
    unpacked.saturating_add(unpacked / 8).saturating_add(1 << 10)
}

/// A request body with a limit.
#[derive(Debug)]
pub struct Chunks {
    body: Body,
    limit: u64,
    seen: u64,
    pace: ClientPace,
}

impl Chunks {
    /// Wraps a body of at most `limit` bytes that must come at a minimum pace.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] if the announced length is over the limit.
    pub fn new(headers: &HeaderMap, body: Body, limit: u64, pace: ClientPace) -> Result<Chunks, Problem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|announced| announced > limit) {
            return Err(too_large(limit));
        }
        Ok(Chunks { body, limit, seen: 0, pace })
    }

    /// Returns the next chunk, or `None` once the body is complete.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] past the limit, [`Kind::BodyTimeout`] if it comes too slowly,
    /// [`Kind::IncompleteBody`] if the connection ends before the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let asked = Instant::now();
            let frame =
                tokio::time::timeout(self.pace.time_left(), self.body.frame()).await.map_err(|_| {
                    Problem::new(Kind::BodyTimeout, format!("{} came", self.pace.describe_pace()))
                })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| {
                let cut = || format!("the connection ended after {} bytes of the body", self.seen);
                Problem::find_in_causes(&error).unwrap_or_else(|| Problem::new(Kind::IncompleteBody, cut()))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            self.pace.record_progress(asked.elapsed(), data.len() as u64);
            if data.is_empty() {
                continue;
            }
            self.seen += data.len() as u64;
            if self.seen > self.limit {
                return Err(too_large(self.limit));
            }
            return Ok(Some(data));
        }
    }

    /// Returns the chunks as a stream that ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Problem>> + Send + 'static {
        stream::unfold(Some(self), |chunks| async move {
            let mut chunks = chunks?;
            match chunks.next().await {
                Ok(Some(data)) => Some((Ok(data), Some(chunks))),
                Ok(None) => None,
                Err(problem) => Some((Err(problem), None)),
            }
        })
    }

    /// Returns the whole body, for operations with a limit that is small enough to hold it. `reserved`, which
    /// has no bytes yet, grows with the body: bytes that are only announced take nothing from others.
    ///
    /// # Errors
    /// Those of [`Chunks::next`], or no bytes are left.
    pub async fn collect_body(mut self, reserved: &mut Reservation) -> Result<Bytes, Problem> {
        let Some(first) = self.next_within(reserved).await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next_within(reserved).await? else { return Ok(first) };
        let announced = HttpBody::size_hint(&self.body).lower();
        let room = self.seen + announced.min(self.seen.saturating_mul(ROOM_FACTOR));
        let mut whole = BytesMut::with_capacity(usize::try_from(room).unwrap_or_default());
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(data) = self.next_within(reserved).await? {
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    async fn next_within(&mut self, reserved: &mut Reservation) -> Result<Option<Bytes>, Problem> {
        let data = self.next().await?;
        reserved.reserve_more(self.seen.saturating_sub(reserved.bytes()))?;
        Ok(data)
    }
}

fn too_large(limit: u64) -> Problem {
    Problem::new(Kind::TooLarge, format!("the body has more than {limit} bytes"))
}

/// The first bytes of a gzip member (RFC 1952 §2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The first bytes of a zstd frame (RFC 8878 §3.1.1).
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a zip archive with an entry (APPNOTE.TXT §4.3.7).
pub const ZIP: &[u8] = b"PK\x03\x04";
/// The largest window of zstd, as a power of two: the maximum that RFC 9659 allows for HTTP.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Bytes that are reserved before anything is unpacked.
const FIRST_PIECE: usize = 64 << 10;
/// Bytes that are unpacked before they are charged.
const PAID_PIECE: usize = 64 << 10;

/// A body up to this size is read at once, if nothing in it can be compressed. That takes less time than to
/// start work on another thread, and that thread has a lower priority than all others.
const SMALL_BYTES: usize = 64 << 10;

/// Reads a body by `work`: at once if it is small, else on the CPU pool.
///
/// # Errors
/// Those of `work`, and [`Kind::Internal`] if it panics on the pool.
pub async fn read_body<T: Send + 'static>(
    capacity: &Capacity,
    tenant: &TenantId,
    body: Bytes,
    work: impl FnOnce(Bytes) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if is_small(&body) { work(body) } else { capacity.cpu.run_for(tenant, move || work(body)).await? }
}

/// Returns true for a small body without the first byte of a gzip member and the beginning of a zstd frame or a zip archive,
/// even in a part of a form. JSON never contains these bytes.
fn is_small(body: &[u8]) -> bool {
    body.len() <= SMALL_BYTES
        && !body.contains(&GZIP[0])
        && !body.windows(ZSTD.len()).any(|bytes| bytes == ZSTD || bytes == ZIP)
}

/// Returns a body, unpacked to at most `limit` bytes if it begins like gzip or zstd. Takes CPU time: call it in
/// [`read_body`].
///
/// # Errors
/// [`Kind::TooLarge`] if there is more, [`Kind::InvalidBody`] if the data is damaged, and errors if no bytes
/// or units are left.
pub fn unpack_body(
    body: &Bytes,
    limit: u64,
    reserved: &mut Reservation,
    charge: &mut Charge,
) -> Result<Bytes, Problem> {
    job_bytes(body.len());
    if body.starts_with(GZIP) {
        return Ok(unpack_gzip(body, limit, reserved, charge)?.into());
    }
    if body.starts_with(ZSTD) {
        let mut unpacking = zstd::Decoder::with_buffer(&body[..]).map_err(Problem::internal)?;
        unpacking.window_log_max(ZSTD_WINDOW_LOG).map_err(Problem::internal)?;
        return Ok(unpack(&mut unpacking, "zstd", limit, reserved, charge)?.into());
    }
    Ok(body.clone())
}

fn unpack_gzip(
    bytes: &[u8],
    limit: u64,
    reserved: &mut Reservation,
    charge: &mut Charge,
) -> Result<Vec<u8>, Problem> {
    unpack(&mut MultiGzDecoder::new(bytes), "gzip", limit, reserved, charge)
}

/// Unpacks a file of an archive to at most `limit` bytes, as [`unpack_body`] does.
///
/// # Errors
/// Those of [`unpack_body`].
pub fn unpack_entry(
    entry: &mut dyn Read,
    limit: u64,
    reserved: &mut Reservation,
    charge: &mut Charge,
) -> Result<Vec<u8>, Problem> {
    unpack(entry, "zip", limit, reserved, charge)
}

/// Unpacks to at most `limit` bytes. Reserves the bytes before it holds them, whatever size the data
/// announces, and takes cost units for each chunk.
fn unpack(
    unpacking: &mut dyn Read,
    format: &str,
    limit: u64,
    reserved: &mut Reservation,
    charge: &mut Charge,
) -> Result<Vec<u8>, Problem> {
    // One byte more than the limit shows that there is more.
    let most = usize::try_from(limit.saturating_add(1)).unwrap_or(usize::MAX);
    let (mut out, mut filled) = (Vec::new(), 0);
    loop {
        if filled == most {
            return Err(Problem::new(
                Kind::TooLarge,
                format!("the body has more than {limit} bytes unpacked"),
            ));
        }
        if filled == out.len() {
            let more = out.len().max(FIRST_PIECE).min(most - out.len());
            reserved.reserve_more(more as u64)?;
            out.reserve_exact(more);
            out.resize(filled + more, 0);
        }
        let end = out.len().min(filled + PAID_PIECE);
        match unpacking.read(&mut out[filled..end]) {
            Ok(0) => break,
            Ok(read) => {
                filled += read;
                job_bytes(filled);
                charge.charge_unpacked(read as u64)?;
            }
            Err(error) => {
                return Err(Problem::new(Kind::InvalidBody, format!("damaged {format} data: {error}")));
            }
        }
    }
    out.truncate(filled);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::charge::tests::charge;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;
    use std::time::Duration;

    fn pace() -> ClientPace {
        ClientPace::new(Duration::from_secs(30), 100)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn collect(body: Body, limit: u64) -> Result<Bytes, Kind> {
        let chunks = Chunks::new(&HeaderMap::new(), body, limit, pace()).map_err(|p| p.kind())?;
        let (mut room, _other) = crate::limits::permits::tests::reservation(1 << 20);
        chunks.collect_body(&mut room).await.map_err(|p| p.kind())
    }

    #[tokio::test]
    async fn a_body_is_taken_to_its_limit_and_no_further() {
        let parts = || Body::from_stream(stream::iter(["ab", "", "cd", "e"].map(Ok::<_, std::io::Error>)));
        assert_eq!(collect(parts(), 5).await, Ok(Bytes::from_static(b"abcde")));
        assert_eq!(collect(parts(), 4).await, Err(Kind::TooLarge));
    }

    /// As it comes, whatever length is announced.
    #[tokio::test]
    async fn a_body_has_room_for_what_has_come() {
        let body = |pieces: usize| {
            Body::from_stream(stream::iter((0..pieces).map(|_| Ok::<_, std::io::Error>(vec![0; 1_024]))))
        };
        let taken = async |headers: &HeaderMap, pieces| {
            let (mut room, _other) = crate::limits::permits::tests::reservation(4 << 10);
            let chunks = Chunks::new(headers, body(pieces), 1 << 20, pace()).unwrap();
            let collected = chunks.collect_body(&mut room).await.map(|body| body.len());
            (collected.map_err(|problem| problem.kind()), room.bytes())
        };
        let (none, mut length) = (HeaderMap::new(), HeaderMap::new());
        assert_eq!(taken(&none, 4).await, (Ok(4 << 10), 4 << 10));
        assert_eq!(taken(&none, 5).await, (Err(Kind::TenantBusy), 4 << 10));
        length.insert(header::CONTENT_LENGTH, (4 << 10).into());
        assert_eq!(taken(&length, 4).await, (Ok(4 << 10), 4 << 10));
        length.insert(header::CONTENT_LENGTH, (5 << 10).into());
        assert_eq!(taken(&length, 1).await, (Ok(1 << 10), 1 << 10));
    }

    #[tokio::test]
    async fn an_announced_length_over_the_limit_is_refused_unread() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, 6.into());
        let refused = Chunks::new(
            &headers,
            Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()),
            5,
            pace(),
        );
        assert_eq!(refused.unwrap_err().kind(), Kind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_or_breaks_ends() {
        let stalled = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"a")) });
        let stalled = futures::StreamExt::chain(stalled, stream::pending());
        assert_eq!(collect(Body::from_stream(stalled), 9).await, Err(Kind::BodyTimeout));
        let broken = stream::iter([Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("cut"))]);
        assert_eq!(collect(Body::from_stream(broken), 9).await, Err(Kind::IncompleteBody));
    }

    /// The pause between two pieces is shorter than a stall, and still they are too few.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_ends_and_one_that_is_slow_does_not() {
        let dripping = |each: usize| {
            Body::from_stream(stream::unfold(0, move |piece| async move {
                tokio::time::sleep(Duration::from_secs(14)).await;
                let more = (piece < 20).then(|| Ok::<_, std::io::Error>(Bytes::from(vec![0; each])));
                more.map(|data| (data, piece + 1))
            }))
        };
        assert_eq!(collect(dripping(49), 2_000).await, Err(Kind::BodyTimeout));
        assert_eq!(collect(dripping(50), 2_000).await.map(|body| body.len()), Ok(1_000));
    }

    #[test]
    fn only_a_body_in_which_nothing_is_packed_is_read_at_once() {
        let json = |bytes: usize| [&b"\""[..], &vec![b'a'; bytes - 2], b"\""].concat();
        let part = [&b"--x\r\n\r\n"[..], &gzip(b"{}"), b"\r\n--x--"].concat();
        let bodies = [json(SMALL_BYTES), json(SMALL_BYTES + 1), gzip(b"{}"), part];
        assert_eq!(bodies.map(|body| is_small(&body)), [true, false, false, false]);
    }

    #[test]
    fn gzip_is_bounded_before_it_is_held() {
        let bomb = gzip(&vec![0; 5_000_000]);
        assert!(bomb.starts_with(GZIP) && bomb.len() < 10_000);
        let unpacked = |bytes: &[u8], limit, room| {
            let (mut room, _other) = crate::limits::permits::tests::reservation(room);
            unpack_gzip(bytes, limit, &mut room, &mut charge(1_000))
                .map(|bytes| bytes.len())
                .map_err(|problem| problem.kind())
        };
        assert_eq!(unpacked(&bomb, 1_000, 1 << 30), Err(Kind::TooLarge));
        assert_eq!(unpacked(&bomb, 4_999_999, 1 << 30), Err(Kind::TooLarge));
        assert_eq!(unpacked(&bomb, 5_000_000, 1 << 30), Ok(5_000_000));
        assert_eq!(unpacked(&bomb[..bomb.len() - 9], 5_000_000, 1 << 30), Err(Kind::InvalidBody));
        // Room is taken for what comes out, not for what the last member says of itself.
        let two = [bomb.clone(), gzip(b"")].concat();
        for packed in [&bomb, &two] {
            assert_eq!(unpacked(packed, 5_000_000, 1_000_000), Err(Kind::TenantBusy));
            assert_eq!(unpacked(packed, 5_000_000, 6 << 20), Ok(5_000_000));
        }
    }

    #[test]
    fn zstd_is_bounded_as_gzip_is() {
        let bomb = zstd::encode_all(&vec![0; 5_000_000][..], 3).unwrap();
        let unpacked = |bytes: Vec<u8>, limit, room| {
            let (mut room, _other) = crate::limits::permits::tests::reservation(room);
            unpack_body(&bytes.into(), limit, &mut room, &mut charge(1_000))
                .map(|bytes| bytes.len())
                .map_err(|problem| problem.kind())
        };
        assert!(!is_small(&bomb));
        assert_eq!(unpacked(bomb.clone(), 5_000_000, 6 << 20), Ok(5_000_000));
        assert_eq!(unpacked(bomb.clone(), 4_999_999, 1 << 30), Err(Kind::TooLarge));
        assert_eq!(unpacked(bomb.clone(), 5_000_000, 1_000_000), Err(Kind::TenantBusy));
        assert_eq!(unpacked(bomb[..bomb.len() - 9].to_vec(), 5_000_000, 1 << 30), Err(Kind::InvalidBody));
    }

    /// Proves: fairness
    #[test]
    fn unpacking_stops_when_the_units_are_used_up() {
        let bomb = gzip(&vec![0; 50 << 20]);
        let unpacked = |units| {
            let (mut room, _other) = crate::limits::permits::tests::reservation(1 << 30);
            let mut charge = charge(units);
            charge.charge_received(bomb.len() as u64).unwrap();
            let outcome = unpack_gzip(&bomb, 100 << 20, &mut room, &mut charge).map(|bytes| bytes.len());
            (outcome.map_err(|problem| problem.kind()), room.bytes())
        };
        assert_eq!(unpacked(800).0, Ok(50 << 20));
        let (refused, held) = unpacked(10);
        assert_eq!(refused, Err(Kind::RateLimited));
        assert!(held <= 2 << 20, "{held} bytes were unpacked for ten units");
    }
}
