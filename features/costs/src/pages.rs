//! `/console/costs`: what tenants used in some days, for operators.

use crate::settings::Prices;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use std::sync::Arc;
use time::{Date, Duration};
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Kind, Problem, Query};
use unslide_api::feature::site::Operator;
use unslide_model::ResourceUse;
use unslide_site::{
    BarSelect, FilterBar, PageState, Shell, SignedIn, Template, counted, escaping, filters, render_html,
};
use unslide_store::resource_uses::{SumKind, UseSum, sum_uses};

/// The path of the page.
pub const COSTS_PAGE: &str = "/console/costs";
/// Tenants with a row of their own.
const MOST_ROWS: u32 = 200;
/// Days that the page sums, by choice.
const DAYS: [(&str, &str); 4] = [("", "30 days"), ("1", "today"), ("7", "7 days"), ("90", "90 days")];

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(COSTS_PAGE, get(show_costs))
}

#[derive(Template)]
#[template(path = "costs/costs.html", askama = escaping)]
struct CostsPage {
    shell: Shell,
    rows: Vec<CostRow>,
    from: Date,
    to: Date,
    currency: String,
    has_prices: bool,
}

/// What a tenant used, other tenants together, the rest, or all.
struct CostRow {
    name: String,
    is_tenant: bool,
    used: ResourceUse,
    /// CPU time in per cent of that of all rows.
    cpu_share: f64,
    price: String,
}

impl CostRow {
    fn new(sum: &UseSum, total: &ResourceUse, prices: &Prices) -> CostRow {
        let name = match (&sum.tenant, sum.kind) {
            (Some(tenant), _) => tenant.to_string(),
            (None, SumKind::Rest) => "not attributed".to_owned(),
            (None, _) => counted(sum.tenants, "other tenant", "other tenants"),
        };
        CostRow::named(name, sum.tenant.is_some(), sum.amounts(), total, prices)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn named(
        name: String,
        is_tenant: bool,
        used: ResourceUse,
        total: &ResourceUse,
        prices: &Prices,
    ) -> CostRow {
        let cpu_share = 100.0 * used.cpu_micros as f64 / total.cpu_micros.max(1) as f64;
        let price = prices.price(&used).map(|price| format!("{price:.2}")).unwrap_or_default();
        CostRow { name, is_tenant, used, cpu_share, price }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    fn cpu(&self) -> String {
        match self.used.cpu_micros as f64 / 1e6 {
            seconds if seconds < 120.0 => format!("{seconds:.1} s"),
            seconds if seconds < 7_200.0 => format!("{:.1} min", seconds / 60.0),
            seconds => format!("{:.1} h", seconds / 3_600.0),
        }
    }
}

async fn show_costs(
    State(storage): State<Arc<Storage>>,
    Extension(prices): Extension<Arc<Prices>>,
    signed: SignedIn<Operator>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let days = match state.get_text("days").as_deref() {
        None => 30,
        Some(text) => text
            .parse()
            .ok()
            .filter(|days| (1..=400).contains(days))
            .ok_or_else(|| Problem::new(Kind::InvalidParameter, "days: a number from 1 to 400"))?,
    };
    let to = storage.clock.now().date();
    let from = to.saturating_sub(Duration::days(days - 1));
    let sums = sum_uses(&storage.store, from, to, MOST_ROWS).await?;
    let mut total = ResourceUse::default();
    sums.iter().for_each(|sum| total += sum.amounts());
    let mut rows: Vec<CostRow> = sums.iter().map(|sum| CostRow::new(sum, &total, &prices)).collect();
    if !rows.is_empty() {
        rows.push(CostRow::named("all".to_owned(), false, total, &total, &prices));
    }
    let bar = FilterBar {
        action: COSTS_PAGE.to_owned(),
        selects: vec![BarSelect::from_words("days", "Days", &DAYS, &state)],
        ..FilterBar::default()
    };
    render_html(&CostsPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Costs").with_bar(bar),
        rows,
        from,
        to,
        has_prices: prices.price(&total).is_some(),
        currency: prices.currency.clone(),
    })
}
