//! The files of one capture on their way to object storage.
//!
//! Their keys are condemned before the first byte is put; the transaction that makes the capture takes them off that
//! list. A failure in between leaves nothing for long.

use crate::capture::{CaptureForm, CapturePart};
use crate::keys::CaptureKeys;
use crate::store::{self, CaptureFile, CaptureId, NewCapture, ReceivedCapture};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tokio_util::io::StreamReader;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Charge, Kind, Problem};
use unslide_api::feature::upload::{
    Packing, Parts, Pieces, UploadQuota, check_symbol_quota, pass_over, remove_object, stream_field,
    unpack_file,
};
use unslide_artifacts::Put;
use unslide_model::{ContentHash, TenantId};
use unslide_store::{segments, usage};

/// A capture before its bytes are received.
#[derive(Clone, Debug)]
pub struct CaptureUpload {
    pub tenant: TenantId,
    /// The app that it was recorded of.
    pub app: String,
    /// The app's version; empty if it is not known.
    pub version: String,
    /// The id of the session that it was recorded in.
    pub session_id: Option<String>,
    pub form: CaptureForm,
    /// The limits of its sender.
    pub may: UploadQuota,
}

/// The body that a capture comes in.
pub enum CaptureBody {
    File(Pieces<'static>),
    /// A form, with the field that was reached already.
    Form(Parts, Option<Box<multer::Field<'static>>>),
}

/// A file that is stored.
struct StoredPart {
    part: CapturePart,
    size: u64,
    sha256: ContentHash,
}

/// Receives the files of a capture. Returns its id, and true if it was received before. `coding` is the one of the whole
/// body.
///
/// # Errors
/// If something is wrong with the bytes, or with a server that is needed.
pub async fn receive(
    storage: &Storage,
    upload: CaptureUpload,
    body: CaptureBody,
    coding: Option<Packing>,
    charge: Charge,
) -> Result<(CaptureId, bool), Problem> {
    let mut tx = storage.tenant(&upload.tenant).await?;
    let id = segments::new_id(&mut tx).await?;
    let keys = CaptureKeys::new(&upload.tenant, id);
    store::expect(&mut tx, &keys.all(&upload.form, [])).await?;
    tx.commit().await?;
    let mut stored = StoredParts::new(storage, &upload, &keys, coding, charge);
    let (received, unused) = match parts(&mut stored, body).await {
        Ok(parts) => {
            let noted = note(storage, &upload, id, &keys, &parts).await;
            // After a failure the capture may be there; otherwise its files are condemned.
            let known = matches!(noted, Ok((_, true)));
            (noted, known)
        }
        Err(problem) => (Err(problem), true),
    };
    if unused {
        remove(storage, &upload.form, &keys).await;
    }
    received
}

/// The files of a capture that are stored, and what may still come.
struct StoredParts<'c> {
    storage: &'c Storage,
    keys: &'c CaptureKeys,
    expected: &'static [CapturePart],
    coding: Option<Packing>,
    charge: Charge,
    /// Bytes that all its files together may have, unpacked.
    most: u64,
    /// How many of them may still come.
    left: u64,
    stored: Vec<StoredPart>,
}

impl<'c> StoredParts<'c> {
    fn new(
        storage: &'c Storage,
        upload: &CaptureUpload,
        keys: &'c CaptureKeys,
        coding: Option<Packing>,
        charge: Charge,
    ) -> StoredParts<'c> {
        let (expected, most) = (upload.form.list_parts(), upload.may.bytes);
        StoredParts { storage, keys, expected, coding, charge, most, left: most, stored: Vec::new() }
    }

    /// Returns the part of this name, if it is expected and has not come yet.
    fn part(&self, name: Option<&str>) -> Option<CapturePart> {
        let part = self.expected.iter().find(|part| name == Some(part.name));
        part.filter(|part| self.stored.iter().all(|other| other.part.name != part.name)).copied()
    }

    /// Stores a file, unpacked if it comes packed.
    async fn store(
        &mut self,
        part: CapturePart,
        pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
    ) -> Result<(), Problem> {
        let charge = &mut self.charge;
        let unpacked = unpack_file(pieces, self.coding, self.left, self.most).await?.map(|piece| {
            let piece = piece?;
            charge.charge_unpacked(piece.len() as u64)?;
            Ok::<_, Problem>(piece)
        });
        let reader = StreamReader::new(Box::pin(unpacked.map_err(std::io::Error::other)));
        let key = self.keys.part(part.name);
        let stored = self.storage.objects.put_stream(&key, reader, self.left, &Put::default()).await?;
        if stored.size == 0 {
            return Err(Problem::new(Kind::InvalidUpload, format!("{} is empty", part.name)));
        }
        self.left -= stored.size;
        self.stored.push(StoredPart { part, size: stored.size, sha256: stored.sha256 });
        Ok(())
    }
}

/// Stores the files of the body. Returns them in the order of the form's parts.
async fn parts(files: &mut StoredParts<'_>, body: CaptureBody) -> Result<Vec<StoredPart>, Problem> {
    let expected = files.expected;
    match (body, expected) {
        (CaptureBody::File(body), [only]) => files.store(*only, body).await?,
        (CaptureBody::File(_), _) => {
            let detail = format!("this kind of capture comes as a form with {}", named(expected));
            return Err(Problem::new(Kind::InvalidUpload, detail));
        }
        (CaptureBody::Form(mut fields, mut reached), _) => loop {
            let next = match reached.take() {
                Some(field) => Some(*field),
                None => fields.next().await?,
            };
            let Some(field) = next else { break };
            // So a browser sends a file that was not chosen.
            if field.file_name() == Some("") {
                pass_over(field, Kind::InvalidUpload).await?;
                continue;
            }
            let Some(part) = files.part(field.name()) else {
                let detail = format!("the form has something else, or twice, beside {}", named(expected));
                return Err(Problem::new(Kind::InvalidUpload, detail));
            };
            files.store(part, stream_field(field, Kind::InvalidUpload)).await?;
        },
    }
    let mut stored = std::mem::take(&mut files.stored);
    let absent = |part: &&CapturePart| part.needed && stored.iter().all(|other| other.part.name != part.name);
    if let Some(part) = expected.iter().find(absent) {
        return Err(Problem::new(Kind::InvalidUpload, format!("the form has no file {}", part.name)));
    }
    stored.sort_by_key(|stored| expected.iter().position(|part| part.name == stored.part.name));
    Ok(stored)
}

fn named(parts: &[CapturePart]) -> String {
    let words = parts.iter().map(|part| match part.needed {
        true => part.name.to_owned(),
        false => format!("{} (may be left out)", part.name),
    });
    format!("the files {}", words.collect::<Vec<_>>().join(", "))
}

/// Inserts the capture of files that are stored.
async fn note(
    storage: &Storage,
    upload: &CaptureUpload,
    id: CaptureId,
    keys: &CaptureKeys,
    parts: &[StoredPart],
) -> Result<(CaptureId, bool), Problem> {
    let file = |stored: &StoredPart| CaptureFile { name: stored.part.name.to_owned(), size: stored.size };
    let files: Vec<CaptureFile> = parts.iter().map(file).collect();
    let kept: Vec<String> = parts.iter().map(|stored| keys.part(stored.part.name).to_string()).collect();
    let new = NewCapture {
        id,
        app: &upload.app,
        version: &upload.version,
        session_id: upload.session_id.as_deref(),
        form: upload.form,
        files: &files,
        content_hash: content_hash(&upload.form, parts)?,
        keys: &kept,
    };
    let mut tx = storage.tenant(&upload.tenant).await?;
    // Under a lock until the commit: two uploads at once do not go over the limit together.
    let used = usage::hold_symbols(&mut tx).await?;
    match store::receive(&mut tx, &new).await? {
        ReceivedCapture::New => {}
        ReceivedCapture::Known(known) => {
            tx.commit().await?;
            return Ok((known, true));
        }
        ReceivedCapture::GivenUp => {
            return Err(Problem::unavailable(format!("the capture {id} was given up in the meantime"), 1));
        }
    }
    let size = files.iter().map(|file| file.size).sum();
    if let Some(limit) = upload.may.symbol_bytes {
        check_symbol_quota(&storage.capacity, used, size, limit)?;
    }
    tx.commit().await?;
    storage.metrics.upload_bytes.inc_by(size);
    Ok((id, false))
}

fn content_hash(form: &CaptureForm, parts: &[StoredPart]) -> Result<ContentHash, Problem> {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(form).map_err(Problem::internal)?);
    for stored in parts {
        hash.update(format!("\n{} {}", stored.part.name, stored.sha256));
    }
    Ok(ContentHash(hash.finalize().into()))
}

/// Removes files that no capture has; what fails here goes later, because it is condemned.
async fn remove(storage: &Storage, form: &CaptureForm, keys: &CaptureKeys) {
    for part in form.list_parts() {
        remove_object(storage, &keys.part(part.name)).await;
    }
}
