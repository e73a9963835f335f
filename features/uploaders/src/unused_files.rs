//! Files of kinds that the product does not use.

use unslide_api::feature::Storage;
use unslide_api::problem::Problem;
use unslide_model::Owner;
use unslide_store::{Uuid, audit};

/// The most characters of a kind that the audit log keeps.
const MAX_KIND_CHARS: usize = 60;

/// Records in the audit log that a file of such a kind was accepted and not stored. A failure would let clients retry for a
/// minute.
///
/// # Errors
/// The database fails.
pub async fn record_unused(
    storage: &Storage,
    owner: &Owner,
    key_id: Uuid,
    kind: &str,
) -> Result<(), Problem> {
    let kind: String = kind.chars().filter(|letter| !letter.is_control()).take(MAX_KIND_CHARS).collect();
    let mut tx = storage.owner(owner).await?;
    audit::append_once_an_hour(&mut tx, &key_id.to_string(), "upload.not_stored", &kind).await?;
    tx.commit().await?;
    Ok(())
}
