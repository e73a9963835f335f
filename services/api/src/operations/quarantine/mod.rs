//! Quarantined records: outputs that the indexer could not store and skipped. Operators see those of all
//! tenants and those without a tenant.

mod get;
mod list;
mod replay;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::operator_list_quarantined))
        .routes(routes!(get::operator_get_quarantined))
        .routes(routes!(replay::operator_replay_quarantined))
}
