//! Streams a segment into object storage; the CPU pool makes its bytes.

use super::MoveError;
use bytes::Bytes;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use unslide_artifacts::StorageError;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES, SEGMENT_HEADER, SegmentError};
use unslide_model::{BodyKey, TenantId};
use unslide_runtime::{CpuPool, job_bytes};
use unslide_store::segments::{MovedBody, PendingBody};

/// Capacity of the pipe between the writer and the upload, in bytes.
const PIPE_BYTES: usize = 1 << 20;

/// Writes a segment of one tenant into a stream.
pub struct SegmentSink {
    cpu: CpuPool,
    tenant: TenantId,
    pipe: DuplexStream,
    pub bytes: u64,
}

impl SegmentSink {
    /// Starts a segment. Returns the sink and the stream of its bytes.
    pub fn new(cpu: CpuPool, tenant: TenantId) -> (SegmentSink, DuplexStream) {
        let (pipe, source) = duplex(PIPE_BYTES);
        (SegmentSink { cpu, tenant, pipe, bytes: 0 }, source)
    }

    /// Adds bodies, and returns the position of each. A body that is larger than readers accept stays in the
    /// database.
    pub async fn add_bodies(&mut self, bodies: Vec<PendingBody>) -> Result<Vec<MovedBody>, MoveError> {
        let (tenant, start) = (self.tenant.clone(), self.bytes);
        let (moved, out) = self.cpu.run(move || build_frames(&tenant, start, bodies)).await??;
        self.send_bytes(out.into()).await?;
        Ok(moved)
    }

    pub async fn finish_segment(mut self) -> Result<(), MoveError> {
        if self.bytes == 0 {
            self.send_bytes(Bytes::from_static(&SEGMENT_HEADER)).await?;
        }
        self.pipe.shutdown().await.map_err(|e| MoveError::Objects(StorageError::Source(e)))
    }

    async fn send_bytes(&mut self, bytes: Bytes) -> Result<(), MoveError> {
        self.bytes += bytes.len() as u64;
        self.pipe.write_all(&bytes).await.map_err(|e| MoveError::Objects(StorageError::Source(e)))
    }
}

/// Returns the frames of bodies from byte `start` of a segment on, and the position of each.
fn build_frames(
    tenant: &TenantId,
    start: u64,
    bodies: Vec<PendingBody>,
) -> Result<(Vec<MovedBody>, Vec<u8>), SegmentError> {
    let mut out = if start == 0 { SEGMENT_HEADER.to_vec() } else { Vec::new() };
    let mut moved = Vec::with_capacity(bodies.len());
    let mut worked = 0;
    for PendingBody { received_at, report_id, variant, revision, stored_at, size, body } in bodies {
        if usize::try_from(size).ok().is_none_or(|size| size > MAX_BODY_BYTES) {
            continue;
        }
        let id = BodyId { tenant: tenant.clone(), report_id, variant, revision };
        let (frame, key) = match unslide_proto::body::decompress_report(&body, MAX_BODY_BYTES) {
            Ok(json) => {
                worked += json.len();
                job_bytes(worked);
                segment::seal_frame(&id, &json)?
            }
            Err(error) => {
                // A damaged body moves like any other, so that it does not come up again. It gets no valid
                // key, so that readers detect the damage.
                tracing::error!(report.id = %report_id, error = %error, "a stored body is damaged");
                (segment::seal_frame(&id, &body)?.0, BodyKey([0; 32]))
            }
        };
        let (offset, length) = (start + out.len() as u64, frame.len() as u64);
        out.extend_from_slice(&frame);
        moved.push(MovedBody { received_at, report_id, variant, revision, stored_at, offset, length, key });
    }
    Ok((moved, out))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use time::OffsetDateTime;
    use unslide_model::ReportId;

    /// How little this thread wants of the cores, as proc(5) has it.
    fn nice() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        behind_name.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn bodies_that_are_large_together_are_a_large_job() {
        let pool = CpuPool::new(1).unwrap();
        let json = vec![b' '; 600 << 10];
        let body = |n| PendingBody {
            received_at: OffsetDateTime::UNIX_EPOCH,
            report_id: ReportId([n; 16]),
            variant: 0,
            revision: 1,
            stored_at: OffsetDateTime::UNIX_EPOCH,
            size: json.len() as u64,
            body: unslide_proto::body::compress_report(&json),
        };
        let nice_after = async |bodies: Vec<PendingBody>| {
            let work = move || build_frames(&TenantId::new("acme").unwrap(), 0, bodies).map(|_| nice());
            pool.run(work).await.unwrap().unwrap()
        };
        let usual = nice_after(vec![body(1)]).await;
        assert!(nice_after(vec![body(2), body(3)]).await > usual || usual == 19);
    }
}
