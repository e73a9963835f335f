//! Builds: which images an import found in a build of an operating system, and the removal of their names.

mod record;
mod remove;
mod store;

use unslide_api::feature::OperationRouter;
use unslide_api::feature::upload::for_both_owners;
use unslide_api::routes;

/// The most images of one architecture of a build.
const MAX_BUILD_IMAGES: i64 = 16_384;
/// The most builds of one owner, each architecture counted.
const MAX_BUILDS: i64 = 500;
const MAX_ARCH_BYTES: usize = 32;

/// Returns the routes of builds, for a tenant's own names and for the names of all tenants.
pub fn routes() -> OperationRouter {
    for_both_owners(|| {
        OperationRouter::new().routes(routes!(record::record_symbol_build, remove::remove_symbol_build))
    })
}
