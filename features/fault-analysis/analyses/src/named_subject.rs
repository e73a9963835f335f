//! The expression with the bad value, as the member `fault` names it.

use serde::Serialize;
use unslide_fault_analysis_variables::subject::FaultSubject;

/// The expression with the bad value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedSubject {
    pub expression: String,
    #[serde(rename = "type")]
    pub type_name: String,
    /// Stated only if it is 0: other values are data of users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The expression that was accessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The distance of the access from the subject's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

impl NamedSubject {
    pub fn from_subject(subject: &FaultSubject) -> NamedSubject {
        NamedSubject {
            expression: subject.expression.clone(),
            type_name: subject.type_name.clone(),
            value: Some(subject.value.value).filter(|value| *value == 0),
            path: subject.path.clone(),
            member: subject.member.clone(),
            offset: subject.value.offset,
        }
    }

    /// Returns the words for the title of a group, such as `Null pointer: Player.score`, if the subject is null and the access
    /// is one of its members. They come from symbols alone.
    pub fn find_headline(&self) -> Option<String> {
        self.value?;
        let owner = self.type_name.strip_suffix(['*', '&'])?.trim_end();
        let owner = owner.strip_prefix("const ").unwrap_or(owner);
        let is_plain = !owner.is_empty() && !owner.ends_with(['*', '&']);
        let member = self.member.as_ref().filter(|_| is_plain)?;
        Some(format!("Null pointer: {owner}.{member}"))
    }
}
