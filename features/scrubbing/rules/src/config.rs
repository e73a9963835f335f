//! Rules as a tenant writes them.

use serde::{Deserialize, Serialize};

/// Largest number of ready patterns, of own patterns, and of names of keys.
pub const RULES_LIMIT: usize = 50;
/// Largest size of an own pattern.
pub const OWN_PATTERN_BYTES: usize = 500;

/// Largest size of the name of a key.
pub const KEY_NAME_BYTES: usize = 200;

unslide_model::words! {
    /// Replacement of a text that a rule takes.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(rename_all = "snake_case"))]
    pub enum ScrubAction {
        /// The name of the rule.
        Mask = "mask",
        /// The name of the rule, and a hash that only the tenant's salt gives: equal texts stay equal.
        Hash = "hash",
        /// Nothing: the text is left out.
        Drop = "drop",
    }
}

unslide_model::words! {
    /// A pattern that the service knows, with its word in marks and counts. Their order is that in which they are applied: a
    /// coordinate with a sign may look like a phone number.
    #[derive(PartialOrd, Ord)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(rename_all = "snake_case"))]
    pub enum ReadyPattern {
        /// An e-mail address.
        Email = "email",
        /// The name of a user in the path of a home folder.
        UserPath = "user_path",
        /// A latitude with a longitude, or one of them after its word.
        Coordinates = "coordinates",
        /// An account number with right check digits.
        Iban = "iban",
        /// A card number with its right check digit.
        Card = "card",
        /// An address of IPv4 or IPv6.
        Ip = "ip",
        /// A phone number with the code of its country, or of the North American form.
        Phone = "phone",
        /// A key of an API, a JSON Web Token, or the value after a word such as `password`.
        Token = "token",
    }
}

/// A ready pattern and its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadyRule {
    /// The pattern that is searched for.
    pub pattern: ReadyPattern,
    /// The replacement of its matches.
    pub action: ScrubAction,
}

/// A pattern of the tenant and its action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OwnRule {
    /// Its word in marks and counts: 1 to 32 of `a-z`, `0-9` and `_`.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 32, example = "member_number"))]
    pub name: String,
    /// A regular expression without look-around and back-references. It applies to each line of a text.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 500, example = "M-[0-9]{8}"))]
    pub pattern: String,
    /// The replacement of its matches.
    pub action: ScrubAction,
}

/// A rule about the value of an own key of the app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyRule {
    /// The key, in any depth of the own keys.
    #[cfg_attr(feature = "openapi", schema(max_length = 200, example = "email"))]
    pub key: String,
    /// The replacement of its value. `drop` takes the key, too.
    pub action: ScrubAction,
}

/// The only own keys of the app that stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KeepOnlyRule {
    /// The keys at the top of the own keys.
    #[cfg_attr(feature = "openapi", schema(max_items = 50, example = json!(["plan"])))]
    pub keys: Vec<String>,
    /// The replacement of the values of all others.
    pub action: ScrubAction,
}

/// All rules of an app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScrubConfig {
    /// Ready patterns, each at most once.
    #[cfg_attr(feature = "openapi", schema(max_items = 50, example = json!([{"pattern": "email", "action": "mask"}])))]
    pub ready: Vec<ReadyRule>,
    /// Own patterns, applied after the ready ones.
    #[cfg_attr(feature = "openapi", schema(max_items = 50, example = json!([{"name": "member_number", "pattern": "M-[0-9]{8}", "action": "hash"}])))]
    pub own: Vec<OwnRule>,
    /// Rules about the values of own keys.
    #[cfg_attr(feature = "openapi", schema(max_items = 50, example = json!([{"key": "email", "action": "drop"}])))]
    pub keys: Vec<KeyRule>,
    /// Takes all other own keys, if present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_only: Option<KeepOnlyRule>,
}

/// The problem of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubConfigError {
    /// A list is too long.
    #[error("{list} has {count} entries; the limit is {RULES_LIMIT}")]
    TooMany {
        /// The name of the list.
        list: &'static str,
        /// The number of its entries.
        count: usize,
    },
    /// A name of a pattern cannot be used.
    #[error("own[{index}].name: use 1 to 32 of a-z, 0-9 and _, and no name of another pattern")]
    InvalidName {
        /// The place of the pattern.
        index: usize,
    },
    /// An own pattern is too long.
    #[error("own[{index}].pattern has {bytes} bytes; the limit is {OWN_PATTERN_BYTES}")]
    LongPattern {
        /// The place of the pattern.
        index: usize,
        /// Its size, counted in bytes.
        bytes: usize,
    },
    /// An own pattern cannot be compiled, or needs too much memory.
    #[error("own[{index}].pattern: {detail}")]
    InvalidPattern {
        /// The place of the pattern.
        index: usize,
        /// The problem, as a sentence.
        detail: String,
    },
    /// The name of a key is too long.
    #[error("{list}[{index}] has {bytes} bytes; the limit is {KEY_NAME_BYTES}")]
    LongKey {
        /// The name of the list.
        list: &'static str,
        /// The place of the key.
        index: usize,
        /// Its size, counted in bytes.
        bytes: usize,
    },
    /// A ready pattern is named twice.
    #[error("ready[{index}]: the pattern is named twice")]
    RepeatedPattern {
        /// The place of the pattern.
        index: usize,
    },
    /// An own pattern takes texts of no length.
    #[error("own[{index}].pattern matches the empty text; name at least one character")]
    EmptyMatch {
        /// The place of the pattern.
        index: usize,
    },
}
