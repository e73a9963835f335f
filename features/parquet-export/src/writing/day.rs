//! One day of a tenant: its rows become files, app by app, and at the end the manifest names them.

use super::Turn;
use crate::bucket::{BucketFailure, hash_bytes};
use crate::files::{DayFile, DayManifest, FileWriteError, ParquetFile, file_path, manifest_path};
use crate::store::{self, DueDay, ExportRow, ExportedReport, RowPosition, WrittenDay};
use unslide_builder::feature::JobFailure;
use unslide_model::format_causes;
use unslide_store::jobs;

const PARQUET_TYPE: &str = "application/vnd.apache.parquet";
const JSON_TYPE: &str = "application/json";

/// The reason for which a day is not complete in the bucket.
#[derive(Debug, thiserror::Error)]
pub enum DayFailure {
    #[error(transparent)]
    Bucket(#[from] BucketFailure),
    #[error("the job has failed")]
    Job(JobFailure),
}

impl From<JobFailure> for DayFailure {
    fn from(failure: JobFailure) -> DayFailure {
        DayFailure::Job(failure)
    }
}

impl From<unslide_store::StoreError> for DayFailure {
    fn from(error: unslide_store::StoreError) -> DayFailure {
        DayFailure::Job(error.into())
    }
}

impl From<FileWriteError> for DayFailure {
    fn from(error: FileWriteError) -> DayFailure {
        DayFailure::Job(JobFailure::Again(format_causes(&error)))
    }
}

/// The end of an attempt to write a day.
pub enum DayEnd {
    Written(WrittenDay),
    /// The export was set again or removed since.
    SetAgain,
}

/// Writes a day with all its apps. The files that the manifest named before stay until the new ones are complete.
pub async fn write_day(turn: &Turn<'_>, export: &ExportRow, due: DueDay) -> Result<DayEnd, DayFailure> {
    let mut tx = turn.job.store().tenant(turn.tenant).await?;
    // Names of files are never used again, also not after the export was removed and set again.
    let generation = tx.now().unix_timestamp().max(store::find_generation(&mut tx, due.day).await? + 1);
    tx.rollback().await?;
    let mut day = DayInWork { turn, export, due, generation, files: Vec::new() };
    let mut app = None;
    loop {
        let mut tx = turn.job.store().tenant(turn.tenant).await?;
        app = store::find_next_app(&mut tx, due.day, app.as_deref()).await?;
        tx.rollback().await?;
        let Some(app) = &app else { break };
        if !day.write_app(app).await? {
            return Ok(DayEnd::SetAgain);
        }
    }
    day.complete().await
}

/// A day that is being written.
struct DayInWork<'d> {
    turn: &'d Turn<'d>,
    export: &'d ExportRow,
    due: DueDay,
    generation: i64,
    files: Vec<DayFile>,
}

impl DayInWork<'_> {
    /// Writes the rows of an app. Returns false if the export was set again since.
    async fn write_app(&mut self, app: &str) -> Result<bool, DayFailure> {
        let (mut number, mut position) = (0, RowPosition::before_day(self.due.day));
        let sizes = self.turn.state.sizes;
        loop {
            let mut file = ParquetFile::new()?;
            let is_last = loop {
                let rows = self.read_group(app, &mut position).await?;
                let is_last = rows.len() < sizes.group_rows;
                if !rows.is_empty() {
                    file = add_group(file, rows).await?;
                }
                if is_last || file.count_bytes() >= sizes.file_bytes {
                    break is_last;
                }
            };
            if file.count_rows() > 0 {
                if !self.put_file(app, number, file).await? {
                    return Ok(false);
                }
                number += 1;
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Reads the rows of the next row group, page by page. Fewer than a group has are the last.
    async fn read_group(
        &self,
        app: &str,
        position: &mut RowPosition,
    ) -> Result<Vec<ExportedReport>, DayFailure> {
        let (mut rows, sizes) = (Vec::new(), self.turn.state.sizes);
        while rows.len() < sizes.group_rows {
            let mut tx = self.turn.job.store().tenant(self.turn.tenant).await?;
            let page = store::list_rows(&mut tx, app, self.due.day, *position, sizes.page_rows).await?;
            tx.rollback().await?;
            let Some(last) = page.last() else { break };
            *position = last.position();
            rows.extend(page);
        }
        Ok(rows)
    }

    /// Puts a file into the bucket. Returns false if the export was set again since.
    async fn put_file(&mut self, app: &str, number: usize, file: ParquetFile) -> Result<bool, DayFailure> {
        let turn = self.turn;
        let (path, rows) = (file_path(self.due.day, app, self.generation, number), file.count_rows());
        let bytes = file.finish()?;
        let named = DayFile {
            path,
            app: app.to_owned(),
            rows: rows as u64,
            bytes: bytes.len() as u64,
            sha256: hash_bytes(&bytes),
        };
        let mut tx = turn.job.store().tenant(turn.tenant).await?;
        if !store::is_current(&mut tx, self.export).await? {
            return Ok(false);
        }
        store::add_file(&mut tx, &named.path, self.due.day, self.generation).await?;
        tx.commit().await?;
        let at = turn.job.store().now();
        turn.state.client.put_object(turn.target, &named.path, bytes, PARQUET_TYPE, at).await?;
        self.files.push(named);
        Ok(true)
    }

    /// Replaces the manifest, and records that the day is complete.
    async fn complete(self) -> Result<DayEnd, DayFailure> {
        let turn = self.turn;
        // A builder that has lost the job must not replace the manifest of the next one.
        let mut tx = turn.job.store().tenant(turn.tenant).await?;
        if !store::is_current(&mut tx, self.export).await? {
            return Ok(DayEnd::SetAgain);
        }
        jobs::lock_job(&mut tx, turn.job.lease).await?;
        let now = tx.now();
        tx.commit().await?;
        let (tenant, day) = (turn.tenant.to_string(), self.due.day.to_string());
        let manifest = DayManifest::new(tenant, day, self.generation, now, self.files);
        let json = serde_json::to_vec(&manifest).map_err(|error| JobFailure::Again(error.to_string()))?;
        let path = manifest_path(self.due.day);
        turn.state.client.put_object(turn.target, &path, json, JSON_TYPE, now).await?;
        let written = WrittenDay {
            due: self.due,
            generation: self.generation,
            rows: i64::try_from(manifest.rows).unwrap_or(i64::MAX),
            files: i32::try_from(manifest.files.len()).unwrap_or(i32::MAX),
            bytes: i64::try_from(manifest.count_bytes()).unwrap_or(i64::MAX),
        };
        let mut tx = turn.job.store().tenant(turn.tenant).await?;
        jobs::lock_job(&mut tx, turn.job.lease).await?;
        let grace = if self.due.erases { time::Duration::ZERO } else { turn.state.times.grace };
        let replaced_until = tx.now() + grace;
        if !store::finish_day(&mut tx, self.export, &written, replaced_until).await? {
            return Ok(DayEnd::SetAgain);
        }
        tx.commit().await?;
        Ok(DayEnd::Written(written))
    }
}

/// Adds rows to a file on a thread for work that computes.
async fn add_group(mut file: ParquetFile, rows: Vec<ExportedReport>) -> Result<ParquetFile, DayFailure> {
    let added = tokio::task::spawn_blocking(move || file.add_rows(&rows).map(|()| file));
    let added = added.await.map_err(|error| JobFailure::Again(error.to_string()))?;
    Ok(added?)
}
