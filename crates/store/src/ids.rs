//! Ids of rows. Each kind is a type of its own, so that one cannot be passed for another.
//!
//! The types are here and not in `unslide_model`: a statement reads and binds them, and the traits of the
//! database cannot be implemented for types of a crate that does not know it. In a checked statement a column is
//! `AS "id: GroupId"`, a parameter `id as GroupId`.

use unslide_model::GroupRef;

/// Makes types of ids that are a UUID in the database, in JSON and in text.
#[macro_export]
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, sqlx::Type)]
        #[serde(transparent)]
        #[sqlx(transparent)]
        pub struct $name($crate::Uuid);

        impl $name {
            /// Returns the id as a UUID.
            #[must_use]
            pub const fn uuid(self) -> $crate::Uuid {
                self.0
            }

            /// Creates an id from a UUID.
            #[must_use]
            pub const fn from_uuid(uuid: $crate::Uuid) -> $name {
                $name(uuid)
            }
        }

        impl From<$name> for $crate::Uuid {
            fn from(id: $name) -> $crate::Uuid {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = ::unslide_model::IdError;
            fn from_str(text: &str) -> Result<$name, ::unslide_model::IdError> {
                $crate::Uuid::parse_str(text).map($name).map_err(|_| ::unslide_model::IdError::Hex16)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// A key of a tenant, by which a client or a person acts.
    KeyId;
    /// A group of reports with one cause.
    GroupId;
    /// An entry in a group's history.
    GroupActivityId;
    /// A saved view of the list of groups.
    GroupViewId;
    /// An upload of symbols.
    UploadId;
    /// A job of the builder.
    JobId;
    /// A request to symbolicate reports again.
    ReprocessId;
    /// A segment of stored reports.
    SegmentId;
    /// A run of an app.
    RunId;
    /// An entry of the audit log.
    AuditEntryId;
}

impl From<GroupId> for GroupRef {
    fn from(id: GroupId) -> GroupRef {
        GroupRef::Id(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;
    use unslide_model::IdError;

    #[test]
    fn an_id_is_a_uuid_in_text_and_in_json() {
        let (id, text) = (GroupId::from_uuid(Uuid::from_u128(7)), "00000000-0000-0000-0000-000000000007");
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(serde_json::to_value(id).unwrap(), text);
        assert_eq!(serde_json::from_value::<GroupId>(text.into()).unwrap(), id);
        assert_eq!("seven".parse::<GroupId>(), Err(IdError::Hex16));
        let refused = serde_json::from_value::<GroupId>("seven".into()).unwrap_err();
        assert_eq!(refused.to_string(), "expected 32 hexadecimal digits, with or without dashes");
    }
}
