//! Receipt of captures.

use super::{CaptureFile, CaptureId, analysis_work};
use crate::capture::CaptureForm;
use time::Duration;
use unslide_model::ContentHash;
use unslide_store::segments::condemn_at;
use unslide_store::sql::to_row;
use unslide_store::{Result, StoreError, TenantTx, jobs};

/// Time for the files of a capture to be received: longer than any upload.
const RECEIVE_TIMEOUT: Duration = Duration::DAY;

/// A capture with its files in object storage.
#[derive(Clone, Debug)]
pub struct NewCapture<'a> {
    pub id: CaptureId,
    /// The app that it was recorded of.
    pub app: &'a str,
    /// The app's version; empty where it is not known.
    pub version: &'a str,
    /// The id of the session that it was recorded in.
    pub session_id: Option<&'a str>,
    /// How its files are read.
    pub form: CaptureForm,
    pub files: &'a [CaptureFile],
    /// The hash of its files and of how they are read.
    pub content_hash: ContentHash,
    /// The keys of its files, as [`expect`] had them.
    pub keys: &'a [String],
}

/// Outcome of the receipt of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedCapture {
    /// It waits for its analysis.
    New,
    /// The same was received before, as this one.
    Known(CaptureId),
    /// It took too long: its files may be deleted.
    GivenUp,
}

/// Notes the keys under which files will be put: they are deleted if no capture has them in the end.
pub async fn expect(tx: &mut TenantTx, keys: &[String]) -> Result<()> {
    let (_, _, now) = tx.parts();
    condemn_at(tx, keys, now + RECEIVE_TIMEOUT).await
}

/// Inserts the capture and the job that analyses it. The files of one that is known stay condemned; if its analysis
/// had failed, it is analysed again.
pub async fn receive(tx: &mut TenantTx, new: &NewCapture<'_>) -> Result<ReceivedCapture> {
    let corrupt = |error| StoreError::corrupt("captures", error);
    let form = serde_json::to_value(new.form).map_err(corrupt)?;
    let files = serde_json::to_value(new.files).map_err(corrupt)?;
    let (connection, tenant, now) = tx.parts();
    let made = sqlx::query!(
        "INSERT INTO captures
             (id, tenant, app, version, session_id, kind, form, files, size, content_hash, state, received_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'queued', $11)
         ON CONFLICT (tenant, app, content_hash) DO NOTHING",
        new.id as CaptureId,
        tenant,
        new.app,
        new.version,
        new.session_id,
        new.form.kind().as_str(),
        form,
        files,
        to_row(new.files.iter().map(|file| file.size).sum()),
        new.content_hash.0.as_slice(),
        now
    )
    .execute(&mut *connection)
    .await?;
    if made.rows_affected() == 0 {
        let known = sqlx::query_scalar!(
            r#"SELECT id AS "id: CaptureId" FROM captures WHERE tenant = $1 AND app = $2 AND content_hash = $3"#,
            tenant,
            new.app,
            new.content_hash.0.as_slice()
        );
        // Otherwise it was deleted between the two statements.
        let Some(known) = known.fetch_optional(&mut *connection).await? else {
            return Ok(ReceivedCapture::GivenUp);
        };
        let failed = sqlx::query!(
            "UPDATE captures SET state = 'queued' WHERE tenant = $1 AND id = $2 AND state = 'failed'",
            tenant,
            known as CaptureId
        );
        if failed.execute(connection).await?.rows_affected() > 0 {
            jobs::add_job(tx, &analysis_work(known)).await?;
        }
        return Ok(ReceivedCapture::Known(known));
    }
    let kept =
        sqlx::query!("DELETE FROM condemned_objects WHERE tenant = $1 AND key = ANY ($2)", tenant, new.keys)
            .execute(connection)
            .await?;
    if usize::try_from(kept.rows_affected()) != Ok(new.keys.len()) {
        return Ok(ReceivedCapture::GivenUp);
    }
    jobs::add_job(tx, &analysis_work(new.id)).await?;
    Ok(ReceivedCapture::New)
}
