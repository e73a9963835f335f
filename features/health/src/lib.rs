//! Health: sessions and metric payloads of apps, and how well versions do by them.
//!
//! `store` has the statements, `topics` what the indexer stores, `operations` the API, and `pages` the console.
//! The package `formats` beside this one reads metric payloads, and `commands` has the subcommands.

mod figure_text;
mod operations;
mod pages;
pub mod store;
mod topics;

use unslide_api::feature::{ApiFeature, ListTable, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, IndexerFeature};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "health";

/// The feature. It has no settings: its events are kept as long as reports.
pub const FEATURE: Feature = Feature {
    hook: store::HEALTH_HOOK,
    indexer: IndexerFeature { topics: topics::TOPICS, rewriting: None },
    ..Feature::new(NAME, |_| feature())
};

/// Makes the feature, which has no settings: its events are kept as long as reports.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

/// The days of an app, the endpoints of its requests, and its requests by one dimension.
const LIST_TABLES: &[ListTable] = &[
    ListTable {
        path: "/v1/apps/{app}/health",
        name: NAME,
        has_pages: false,
        columns: "day sessions crashed_sessions crash_free_sessions out_of_memory_rate \
                  background_out_of_memory_rate installations crashed_installations \
                  crash_free_installations users crashed_users crash_free_users",
    },
    ListTable {
        path: "/v1/apps/{app}/network",
        name: "network",
        has_pages: false,
        columns: "endpoint=/value requests estimated failed total_p50=/phases/request_total/p50 \
                  total_p95=/phases/request_total/p95 wait_p50=/phases/request_wait/p50 dns_p50=/phases/request_dns/p50 \
                  connect_p50=/phases/request_connect/p50 tls_p50=/phases/request_tls/p50 \
                  first_byte_p50=/phases/request_first_byte/p50 sent_p50=/phases/request_sent/p50 \
                  sent_p95=/phases/request_sent/p95 received_p50=/phases/request_received/p50 \
                  received_p95=/phases/request_received/p95 sent_sum=/phases/request_sent/sum \
                  received_sum=/phases/request_received/sum",
    },
    ListTable {
        path: "/v1/apps/{app}/network/{by}",
        name: "network-requests",
        has_pages: false,
        columns: "value version name requests estimated failed total_p50=/phases/request_total/p50 \
                  total_p95=/phases/request_total/p95 wait_p50=/phases/request_wait/p50 dns_p50=/phases/request_dns/p50 \
                  connect_p50=/phases/request_connect/p50 tls_p50=/phases/request_tls/p50 \
                  first_byte_p50=/phases/request_first_byte/p50 sent_p50=/phases/request_sent/p50 \
                  sent_p95=/phases/request_sent/p95 received_p50=/phases/request_received/p50 \
                  received_p95=/phases/request_received/p95 sent_sum=/phases/request_sent/sum \
                  received_sum=/phases/request_received/sum",
    },
];

fn for_api() -> ApiFeature {
    ApiFeature {
        operations: with_tag(
            "metrics",
            "What apps measure of themselves: launches, hangs, energy, disk writes, requests.",
            operations::routes(),
        ),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 30,
            name: NAME,
            path: pages::HEALTH_PATH,
            label: "Health",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: true,
        }],
        tables: LIST_TABLES,
        show_panel: Some(pages::show_panel),
        ..ApiFeature::new(NAME)
    }
}
