//! The bytes of a segment on their way into object storage, made on the CPU pool.

use super::Trouble;
use bytes::Bytes;
use time::Date;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use unslide_artifacts::StoreError as ObjectError;
use unslide_artifacts::segment::{Entry, Frame, Writer};
use unslide_model::TenantId;
use unslide_runtime::CpuPool;

/// Bytes between the one who writes and the one who stores.
const PIPE_BYTES: usize = 1 << 20;

/// Writes a segment into a stream.
pub struct Sink {
    cpu: CpuPool,
    pipe: DuplexStream,
    /// `None` only while the CPU pool has it.
    writer: Option<Writer>,
    /// The header, until it is sent.
    begun: Vec<u8>,
}

impl Sink {
    /// A segment of this tenant and day, and the stream that it comes out of.
    pub fn new(cpu: CpuPool, tenant: &TenantId, day: Date) -> (Sink, DuplexStream) {
        let (pipe, source) = duplex(PIPE_BYTES);
        let mut begun = Vec::new();
        let writer = Some(Writer::new(tenant, day, &mut begun));
        (Sink { cpu, pipe, writer, begun }, source)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::bytes)
    }

    /// Frames so far.
    pub fn frames(&self) -> usize {
        self.writer.as_ref().map_or(0, |writer| writer.entries().len())
    }

    /// Adds the frames that `make` makes, one of each item, and says where they lie. `make` runs on the
    /// CPU pool; what it gives `None` for is left out.
    pub async fn add<I: Send + 'static>(
        &mut self,
        items: Vec<I>,
        make: impl Fn(&I) -> Option<Frame> + Send + 'static,
    ) -> Result<Vec<(I, Option<Entry>)>, Trouble> {
        let Some(mut writer) = self.writer.take() else { return Ok(Vec::new()) };
        let mut out = std::mem::take(&mut self.begun);
        let (writer, placed, out) = self
            .cpu
            .run(move || {
                let mut placed = Vec::with_capacity(items.len());
                for item in items {
                    let entry = make(&item).map(|frame| writer.add(&frame, &mut out));
                    placed.push((item, entry));
                }
                (writer, placed, out)
            })
            .await?;
        self.writer = Some(writer);
        self.send(out.into()).await?;
        Ok(placed)
    }

    /// Ends the segment.
    pub async fn finish(mut self) -> Result<(), Trouble> {
        let mut out = std::mem::take(&mut self.begun);
        if let Some(writer) = self.writer.take() {
            writer.finish(&mut out);
        }
        self.send(out.into()).await?;
        self.pipe.shutdown().await.map_err(|e| Trouble::Objects(ObjectError::Source(e)))
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Trouble> {
        self.pipe.write_all(&bytes).await.map_err(|e| Trouble::Objects(ObjectError::Source(e)))
    }
}
