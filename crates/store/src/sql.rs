//! Parts for the statements of features, besides [`TenantTx::parts`](crate::OwnerTx::parts) and
//! [`Store::pool`](crate::Store::pool).

pub use crate::column::{TenantColumn, words};
pub use crate::purge::{in_pages, rows_before};
