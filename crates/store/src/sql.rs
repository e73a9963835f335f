//! Parts for the statements of features, besides [`TenantTx::parts`](crate::OwnerTx::parts) and
//! [`Store::pool`](crate::Store::pool).

pub use crate::column::{
    EndReasonColumn, HashColumn, JsonColumn, Nullable, ScopesColumn, TenantColumn, U64, words,
};
pub use crate::json::{format_bytes as json_bytes, format_time as json_time};
pub use crate::number::{from_row, from_row32, to_row, to_row32};
