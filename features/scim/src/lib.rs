//! SCIM: the identity provider of a tenant sends its users and groups, as Okta and Microsoft Entra do (RFC 7643 and 7644). A person
//! who left there has no access here.
//!
//! `token` has the kind of tokens, `protocol` the resources and their changes, `store` the statements, `routes` the protocol over
//! HTTP, and `operations` the tokens for administrators. The package `commands` has the subcommand. The feature with the people hears
//! of changes by [`report_directory_change`](unslide_store::report_directory_change).

mod ids;
mod operations;
mod protocol;
mod routes;
mod store;
mod token;

pub use token::SCIM_TOKENS;

use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "scim";

/// The feature. It has no settings.
pub const FEATURE: Feature =
    Feature { hook: store::SCIM_HOOK, key_kinds: &[&SCIM_TOKENS], ..Feature::new(NAME, |_| feature()) };

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    let about = "Users and groups that the identity provider of a tenant sends (SCIM 2.0).";
    let api = ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        routes: routes::routes(),
        tables: operations::SCIM_TOKEN_TABLES,
        ..ApiFeature::new(NAME)
    };
    FEATURE.with_api(api)
}
