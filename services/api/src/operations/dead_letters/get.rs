//! `GET /v1/dead-letters/{id}`.

use super::topic::{DeadLetterReader, LetterRemains};
use super::{DeadLetter, DeadLetterScope};
use crate::operations::prelude::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unslide_proto::headers;

/// Headers of one answer.
const MOST_HEADERS: usize = 100;

/// Bytes: as text where they are UTF-8, else as base64.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BytesShown {
    /// The text.
    Text(String),
    /// The bytes in base64.
    Base64(String),
}

impl BytesShown {
    fn of(bytes: &[u8]) -> BytesShown {
        std::str::from_utf8(bytes).map_or_else(
            |_| BytesShown::Base64(STANDARD.encode(bytes)),
            |text| BytesShown::Text(text.to_owned()),
        )
    }
}

/// A header of a record.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: BytesShown,
}

/// A dead letter, and what of its record can be shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ShownDeadLetter {
    /// The letter.
    #[serde(flatten)]
    pub letter: DeadLetter,
    /// True where the record and its value can still be read: then it can be replayed.
    pub held: bool,
    /// What is gone, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Bytes of a value that was too large for the letter: it is read from the record `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_bytes: Option<u64>,
    /// The record's key; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<BytesShown>,
    /// The record's first headers in order, at most 100.
    #[schema(max_items = 100)]
    pub headers: Vec<RecordHeader>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Show a dead letter
///
/// What is known of it, with the record's key and headers. The body has an address of its own.
#[utoipa::path(get, path = "/dead-letters/{id}", tag = "dead letters", operation_id = "get_dead_letter",
    params(("id" = String, Path, description = "The letter's id.")),
    responses((status = 200, description = "The letter.", body = ShownDeadLetter), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_dead_letter(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Json<ShownDeadLetter>, Problem> {
    let scope = DeadLetterScope::of(&access)?;
    let id = parameter("id", &id)?;
    let mut tx = scope.begin(&api).await?;
    let letter = scope.find(&mut tx, &id).await?;
    tx.rollback().await?;
    let (record, lost) = match DeadLetterReader::open(&api, scope.tenant()).await?.provenance(&letter).await?
    {
        LetterRemains::Whole(record) => (Some(record), None),
        LetterRemains::WithoutValue(record, why) => (Some(record), Some(why)),
        LetterRemains::Nothing(why) => (None, Some(why)),
    };
    let shown = record
        .iter()
        .flat_map(|record| record.headers.iter())
        .take(MOST_HEADERS)
        .map(|(name, value)| RecordHeader { name: name.to_owned(), value: BytesShown::of(value) });
    Ok(Json(ShownDeadLetter {
        letter: letter.into(),
        held: lost.is_none(),
        lost,
        source_bytes: record.as_ref().and_then(|record| record.headers.number(headers::BODY_BYTES)),
        headers: shown.collect(),
        key: record.and_then(|record| record.key).map(|key| BytesShown::of(&key)),
    }))
}
