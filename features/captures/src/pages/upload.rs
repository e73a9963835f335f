//! `POST /console/captures/upload`: the form of the page of captures goes the way of `POST /v1/captures`.

use super::prelude::*;
use crate::operations::{AdmittedCapture, CaptureBody, SendCaptureQuery, upload};
use axum::body::Body;
use futures::TryStreamExt;
use http::HeaderMap;
use unslide_api::feature::operation::ReportsWrite;
use unslide_api::feature::upload::{Parts, stream_field};
use unslide_site::SentForm;

/// Fields before the first file, and bytes that one of them may have.
const MOST_FIELDS: usize = 8;
const MOST_FIELD_BYTES: usize = 1 << 10;

pub async fn send(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsWrite>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let mut admitted = AdmittedCapture::admit(&storage, access, &headers, body).await?;
    let CaptureBody::Form(parts, reached) = &mut admitted.body else {
        return Err(Problem::new(Kind::InvalidUpload, "the page of captures sends a form"));
    };
    let (fields, file) = Box::pin(fields(parts)).await?;
    *reached = file.map(Box::new);
    let capture = upload(&storage, access, query(&fields)?).await?;
    let (id, _) = admitted.receive(storage, capture).await?;
    Ok(Redirect::to(&format!("/console/captures/{id}")).into_response())
}

/// The fields before the first file, and the field of that file.
async fn fields(parts: &mut Parts) -> Result<(SentForm, Option<multer::Field<'static>>), Problem> {
    let mut fields = Vec::new();
    while let Some(field) = parts.next().await? {
        if field.file_name().is_some() {
            return Ok((SentForm::from_fields(fields), Some(field)));
        }
        let name = field.name().unwrap_or_default().to_owned();
        let mut text = Vec::new();
        let mut value = std::pin::pin!(stream_field(field, Kind::InvalidUpload));
        while let Some(piece) = value.try_next().await? {
            text.extend_from_slice(&piece);
            if text.len() > MOST_FIELD_BYTES || fields.len() == MOST_FIELDS {
                let detail = format!("{name}: at most {MOST_FIELDS} fields of {MOST_FIELD_BYTES} bytes");
                return Err(Problem::new(Kind::InvalidUpload, detail));
            }
        }
        let text = String::from_utf8(text)
            .map_err(|_| Problem::new(Kind::InvalidUpload, format!("{name}: this is not UTF-8")))?;
        fields.push((name, text));
    }
    Ok((SentForm::from_fields(fields), None))
}

fn query(form: &SentForm) -> Result<SendCaptureQuery, Problem> {
    Ok(SendCaptureQuery {
        app: form.get("app").map(str::to_owned),
        version: form.get("version").map(str::to_owned),
        session_id: form.get("session_id").map(str::to_owned),
        kind: form.parse_word("kind")?,
        layout: form.get("layout").map(|_| form.parse_word("layout")).transpose()?,
        lite: form.get("lite").map(|_| true),
        at: form.parse_number("at")?,
        from: form.parse_number("from")?,
    })
}
