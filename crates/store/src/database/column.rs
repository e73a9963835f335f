//! Columns with another type in code than in the database. `AS "size: U64"` in `query_as!` reads a column as
//! one of these types, and `AS "size!: Nullable<U64>"` reads one that may be NULL.

use crate::dead_letters::DeadLetterId;
use serde::de::DeserializeOwned;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef, Postgres};
use sqlx::types::Json;
use sqlx::{Decode, Type, ValueRef};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::ended::EndReason;
use unslide_model::{AppSignal, BodyKey, ContentHash, DebugId, Owner, Quality, ReportId, Scope, TenantId};
use uuid::Uuid;

/// A column that may be NULL.
#[derive(Debug)]
pub struct Nullable<C>(pub(crate) Option<C>);

impl<C: Type<Postgres>> Type<Postgres> for Nullable<C> {
    fn type_info() -> PgTypeInfo {
        C::type_info()
    }
}

impl<'r, C: Decode<'r, Postgres>> Decode<'r, Postgres> for Nullable<C> {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        if value.is_null() {
            Ok(Nullable(None))
        } else {
            C::decode(value).map(|column| Nullable(Some(column)))
        }
    }
}

macro_rules! columns {
    ($($column:ident: $stored:ty => $code:ty, $read:expr;)+) => {$(
        #[doc = concat!("A column that is a [`", stringify!($code), "`].")]
        #[derive(Debug)]
        pub struct $column($code);

        impl Type<Postgres> for $column {
            fn type_info() -> PgTypeInfo {
                <$stored as Type<Postgres>>::type_info()
            }
        }

        impl<'r> Decode<'r, Postgres> for $column {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                let read: fn($stored) -> Result<$code, BoxDynError> = $read;
                read(<$stored as Decode<Postgres>>::decode(value)?).map($column)
            }
        }

        impl From<$column> for $code {
            fn from(column: $column) -> $code {
                column.0
            }
        }

        impl From<Nullable<$column>> for Option<$code> {
            fn from(column: Nullable<$column>) -> Option<$code> {
                column.0.map(|column| column.0)
            }
        }
    )+};
}

columns! {
    U64: i64 => u64, |number| Ok(u64::try_from(number)?);
    U32: i32 => u32, |number| Ok(u32::try_from(number)?);
    DebugIdColumn: Uuid => DebugId, |id| Ok(DebugId::from_uuid(id));
    ReportIdColumn: Uuid => ReportId, |id| Ok(ReportId::from_uuid(id));
    HashColumn: Vec<u8> => ContentHash, |bytes| Ok(ContentHash(to_array(bytes)?));
    BodyKeyColumn: Vec<u8> => BodyKey, |bytes| Ok(BodyKey(to_array(bytes)?));
    QualityColumn: i16 => Quality, |rank| Quality::from_rank(rank).ok_or_else(|| format!("quality {rank}").into());
    TenantColumn: String => TenantId, |slug| Ok(TenantId::new(&slug)?);
    OwnerColumn: String => Owner, |name| Ok(Owner::from_name(&name)?);
    DeadLetterIdColumn: String => DeadLetterId, |id| Ok(id.parse()?);
    TimeColumn: String => OffsetDateTime, |text| Ok(OffsetDateTime::parse(&text, &Rfc3339)?);
    EndReasonColumn: String => EndReason, |word| EndReason::parse(&word).ok_or_else(|| format!("{word:?} is no end").into());
    SignalColumn: String => AppSignal, |word| AppSignal::parse(&word).ok_or_else(|| format!("{word:?} is no signal").into());
    ScopesColumn: Vec<String> => Vec<Scope>, |scopes| Ok(scopes.iter().map(|scope| scope.parse()).collect::<Result<_, _>>()?);
}

fn to_array<const N: usize>(bytes: Vec<u8>) -> Result<[u8; N], BoxDynError> {
    bytes.try_into().map_err(|bytes: Vec<u8>| format!("{} bytes in the place of {N}", bytes.len()).into())
}

/// The enum of [`unslide_model::words!`], which is a word in the database too.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        ::unslide_model::words! {
            $(#[$meta])*
            pub enum $name { $($(#[$doc])* $variant = $word),+ }
        }

        impl sqlx::Type<sqlx::Postgres> for $name {
            fn type_info() -> sqlx::postgres::PgTypeInfo {
                <str as sqlx::Type<sqlx::Postgres>>::type_info()
            }
        }

        impl<'r> sqlx::Decode<'r, sqlx::Postgres> for $name {
            fn decode(value: sqlx::postgres::PgValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                let word = <&str as sqlx::Decode<sqlx::Postgres>>::decode(value)?;
                $name::parse(word).ok_or_else(|| format!("{word:?} is no {}", stringify!($name)).into())
            }
        }
    };
}
pub use words;

/// A JSON column of a type.
#[derive(Debug)]
pub struct JsonColumn<T>(pub T);

impl<T> Type<Postgres> for JsonColumn<T> {
    fn type_info() -> PgTypeInfo {
        <Json<()> as Type<Postgres>>::type_info()
    }
}

impl<'r, T: DeserializeOwned + 'static> Decode<'r, Postgres> for JsonColumn<T> {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        Json::decode(value).map(|Json(read)| JsonColumn(read))
    }
}

/// Lets `query_as!` put a JSON column into a field of this type.
macro_rules! json_column {
    ($code:ty) => {
        impl From<$crate::column::JsonColumn<$code>> for $code {
            fn from(column: $crate::column::JsonColumn<$code>) -> $code {
                column.0
            }
        }

        impl From<$crate::column::Nullable<$crate::column::JsonColumn<$code>>> for Option<$code> {
            fn from(column: $crate::column::Nullable<$crate::column::JsonColumn<$code>>) -> Option<$code> {
                column.0.map(|column| column.0)
            }
        }
    };
}
pub(crate) use json_column;
