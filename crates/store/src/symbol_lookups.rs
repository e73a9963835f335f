//! Look-ups of symbols beside uploads, which one feature makes and lists of images show.

use crate::column::words;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::DebugId;
use utoipa::ToSchema;

words! {
    /// The outcome of a look-up.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum LookupOutcome {
        /// It has not been made yet.
        Waiting = "waiting",
        /// There are no such symbols.
        NotFound = "not_found",
        /// There were symbols, which entered as an upload does.
        Found = "found",
        /// There was a file that is not what was asked for.
        Refused = "refused",
        /// It could not be made.
        Failed = "failed",
    }
}

/// A look-up of symbols at a place that a tenant has named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SymbolLookup {
    /// Debug id (`LC_UUID`) of the image.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// Name of the place.
    #[schema(max_length = 40, example = "builds")]
    pub source: String,
    /// The outcome.
    pub outcome: LookupOutcome,
    /// Why it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When the place was asked last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<OffsetDateTime>,
    /// When it is asked again, if reports wait then (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub again_at: Option<OffsetDateTime>,
}

impl fmt::Display for SymbolLookup {
    /// Writes the clause about it, such as `asked source builds at 2026-11-29T10:00:00Z: not found, asked again at …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = |at: OffsetDateTime| {
            let whole = at.replace_nanosecond(0).unwrap_or(at);
            whole.format(&Rfc3339).unwrap_or_default()
        };
        let source = &self.source;
        match (self.outcome, self.asked_at) {
            (LookupOutcome::Found, _) => return write!(f, "from source {source}"),
            (LookupOutcome::Waiting, _) => write!(f, "source {source} will be asked")?,
            (outcome, Some(at)) => {
                write!(f, "asked source {source} at {}: {}", format(at), outcome.as_str().replace('_', " "))?;
            }
            (outcome, None) => write!(f, "asked source {source}: {}", outcome.as_str().replace('_', " "))?,
        }
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        match self.again_at {
            Some(at) => write!(f, ", asked again at {}", format(at)),
            None => Ok(()),
        }
    }
}

/// Returns look-ups by their debug ids.
#[must_use]
pub fn group_by_id(lookups: Vec<SymbolLookup>) -> HashMap<DebugId, Vec<SymbolLookup>> {
    let mut by_id: HashMap<DebugId, Vec<SymbolLookup>> = HashMap::new();
    for lookup in lookups {
        by_id.entry(lookup.debug_id).or_default().push(lookup);
    }
    by_id
}
