//! `/console/tenants`: the usage of each tenant beside its limits, for operators.

use crate::prelude::*;
use unslide_api::feature::site::Operator;
use unslide_api::feature::site::{TenantUsageQuery, list_tenant_usage};
use unslide_model::figures::round_share_below_whole;
use unslide_site::{BarSelect, FilterBar};
use unslide_store::figures::TenantFigures;
use unslide_store::tenants::TenantStanding;

const TENANTS_PAGE: &str = "/console/tenants";
/// A tenant is near its limit from this percentage on.
const NEAR_PERCENT: u64 = 90;

/// A class of the stylesheet, a mark and words.
type Nearness = (&'static str, &'static str, &'static str);

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/tenants.html", askama = escaping)]
struct TenantsPage {
    shell: Shell,
    tenants: Vec<TenantFigures>,
    next: Option<String>,
    /// Cost units per second of a tenant without its own limit; 0 for no limit.
    default_units: u32,
}

impl TenantsPage {
    /// Formats the limit on the tenant's rate.
    fn rate(&self, tenant: &TenantFigures) -> String {
        let own = Some(tenant.limits.units_per_second).filter(|units| *units > 0);
        match own.unwrap_or(self.default_units) {
            0 => "no limit".to_owned(),
            units => format!("at most {}/s", counted(units, "unit", "units")),
        }
    }
}

/// Returns the used share of the limit on symbols in percent, 100 only if the limit is reached.
fn used_percent(tenant: &TenantFigures) -> u64 {
    round_share_below_whole(tenant.used_bytes(), tenant.symbol_limit_bytes, 100)
}

/// Returns the width of the bar, up to 100.
fn width(tenant: &TenantFigures) -> u64 {
    used_percent(tenant).min(100)
}

/// Formats the used part of the limit on symbols.
fn used(tenant: &TenantFigures) -> String {
    let (used, limit) = (words::bytes(tenant.used_bytes()), words::bytes(tenant.symbol_limit_bytes));
    format!("{used} of {limit}, {} %", used_percent(tenant))
}

/// Returns true if the tenant is near its limit, or over it.
fn is_near(tenant: &TenantFigures) -> bool {
    nearness_at(used_percent(tenant)).is_some()
}

/// Returns a class of the stylesheet, a mark and words for a tenant that is near its limit.
fn nearness(tenant: &TenantFigures) -> Nearness {
    nearness_at(used_percent(tenant)).unwrap_or_default()
}

/// Returns the class of the bar in the stylesheet.
fn class(tenant: &TenantFigures) -> &'static str {
    nearness(tenant).0
}

fn nearness_at(percent: u64) -> Option<Nearness> {
    match percent {
        0..NEAR_PERCENT => None,
        NEAR_PERCENT..100 => Some(("warn", "◐", "near its limit")),
        100.. => Some(("bad", "●", "full")),
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<Operator>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let default_units = storage.capacity.tenants.units_per_second;
    let query =
        TenantUsageQuery { sort: state.get_text("sort"), limit: None, cursor: state.get_text("cursor") };
    let Json(found) = list_tenant_usage(State(storage), signed.access, Query(query)).await?;
    let choices = [
        ("", "reports in 1 h"),
        ("deferred", "deferred"),
        ("symbols", "symbols"),
        ("full", "share of limit"),
    ];
    let bar = FilterBar {
        action: TENANTS_PAGE.to_owned(),
        selects: vec![BarSelect::from_words("sort", "Order", &choices, &state)],
        ..FilterBar::default()
    };
    render_html(&TenantsPage {
        shell: Shell::for_viewer(signed.viewer, "tenants", "Tenants").with_bar(bar),
        tenants: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(TENANTS_PAGE, &["sort"], &cursor)),
        default_units,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_near_its_limit_from_90_percent_on_and_full_at_it() {
        let words = |percent| nearness_at(percent).map(|(class, _, words)| (class, words));
        assert_eq!([0, 89].map(words), [None, None]);
        assert_eq!([90, 99].map(words), [Some(("warn", "near its limit")); 2]);
        assert_eq!([100, 150].map(words), [Some(("bad", "full")); 2]);
    }
}
