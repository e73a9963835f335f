//! `GET /v1/dead-letters/{id}`.

use super::DeadLetterScope;
use super::topic::{DeadLetterReader, DeadLetterRemains};
use crate::operations::prelude::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unslide_store::dead_letters::DeadLetter;

/// Maximum number of headers in one response.
const MOST_HEADERS: usize = 100;
/// Bytes of a value that a page shows.
const FIRST_BYTES: usize = 2 << 10;

/// Bytes: as text if they are UTF-8, else as base64.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BytesShown {
    /// The bytes as text, if they are UTF-8.
    Text(String),
    /// The bytes in base64, if they are not UTF-8.
    Base64(String),
}

impl BytesShown {
    fn from_bytes(bytes: &[u8]) -> BytesShown {
        std::str::from_utf8(bytes).map_or_else(
            |_| BytesShown::Base64(STANDARD.encode(bytes)),
            |text| BytesShown::Text(text.to_owned()),
        )
    }
}

/// A header of a record.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordHeader {
    /// Name of the Kafka header.
    pub name: String,
    /// Value of the Kafka header.
    pub value: BytesShown,
}

/// A dead letter, and what of its record can be shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ShownDeadLetter {
    /// The dead letter as it is listed.
    #[serde(flatten)]
    pub letter: DeadLetter,
    /// True if the API can read the record and its value.
    pub held: bool,
    /// Why the API can't read the record or its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The record's key, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<BytesShown>,
    /// The record's first headers in order, at most 100.
    #[schema(max_items = 100)]
    pub headers: Vec<RecordHeader>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Show a dead letter
///
/// The dead letter, with its record's key and headers if its stage is `symbolize`. The record's value is at `…/body`.
#[utoipa::path(get, path = "/dead-letters/{id}", tag = "dead letters", operation_id = "get_dead_letter",
    params(("id" = String, Path, description = "The letter's id.")),
    responses((status = 200, description = "The letter.", body = ShownDeadLetter), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_dead_letter(
    State(broker): State<Arc<Broker>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Json<ShownDeadLetter>, Problem> {
    let (shown, _) = open_letter(&broker, &access, &id).await?;
    Ok(Json(shown))
}

/// Returns the part of a dead letter's record that can be shown, and the first bytes of its value. The bytes
/// are `None` if the value is gone or there was none.
///
/// # Errors
/// There is no such dead letter, or Kafka does not answer.
pub async fn open_letter(
    broker: &Arc<Broker>,
    access: &Access<TenantAdmin>,
    id: &str,
) -> Result<(ShownDeadLetter, Option<Vec<u8>>), Problem> {
    let scope = DeadLetterScope::for_request(access, None)?;
    let id = parse_parameter("id", id)?;
    let mut tx = scope.begin_transaction(&broker.storage).await?;
    let letter = scope.find_dead_letter(&mut tx, &id).await?;
    tx.rollback();
    // Few readers are open at the same time: the whole value is dropped before the reader.
    let reader = DeadLetterReader::open(broker, scope.tenant()).await?;
    let (record, lost) = match reader.read_remains(&letter).await? {
        DeadLetterRemains::Whole(record) => (Some(record), None),
        DeadLetterRemains::WithoutValue(record, why) => (Some(record), Some(why)),
        DeadLetterRemains::Nothing(why) => (None, Some(why)),
    };
    let value = record.as_ref().and_then(|record| record.value.as_ref());
    let first = value.map(|value| value.iter().take(FIRST_BYTES).copied().collect());
    let shown =
        record.iter().flat_map(|record| record.headers.iter()).take(MOST_HEADERS).map(|(name, value)| {
            RecordHeader { name: name.to_owned(), value: BytesShown::from_bytes(value) }
        });
    let shown = ShownDeadLetter {
        letter,
        held: lost.is_none(),
        lost,
        headers: shown.collect(),
        key: record.and_then(|record| record.key).map(|key| BytesShown::from_bytes(&key)),
    };
    Ok((shown, first))
}
