//! `unslide tenant usage`.

use crate::prelude::*;
use unslide_model::figures::{round_mebibytes, round_share_below_whole};
use unslide_store::Store;
use unslide_store::figures::{self, FigureOrder, TenantFigures};

const USAGE_COLUMNS: [&str; 10] = [
    "TENANT",
    "STATE",
    "REPORTS 1H",
    "REPORTS 24H",
    "DEFERRED RECORDS",
    "SYMBOLS MIB",
    "LIMIT MIB",
    "FULL %",
    "UPLOADS WAITING",
    "KEYS",
];

/// Reads an order by its name.
///
/// # Errors
/// Names the orders if the text is none of them.
pub fn read_order(text: &str) -> Result<FigureOrder, String> {
    FigureOrder::parse(text).ok_or_else(|| "reports, deferred, symbols or full".to_owned())
}

fn build_row(tenant: &TenantFigures) -> [String; USAGE_COLUMNS.len()] {
    let numbers = [
        tenant.reports_last_hour,
        tenant.reports_last_day,
        tenant.deferred_records,
        round_mebibytes(tenant.used_bytes()),
        round_mebibytes(tenant.symbol_limit_bytes),
        round_share_below_whole(tenant.used_bytes(), tenant.symbol_limit_bytes, 100),
        tenant.uploads_waiting,
        tenant.keys,
    ];
    let [hour, day, deferred, symbols, limit, full, uploads, keys] = numbers.map(|number| number.to_string());
    let (id, state) = (tenant.id.to_string(), tenant.state.as_str().to_owned());
    [id, state, hour, day, deferred, symbols, limit, full, uploads, keys]
}

/// Prints the figures of all tenants in an order. `symbol_limit` holds for tenants without a limit of their own.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn print_usage(store: &Store, order: FigureOrder, symbol_limit: u64, as_json: bool) -> Outcome {
    // Each call reads the figures of all tenants: pages would read them again and again.
    let all = figures::list_figures(store, order, symbol_limit, None, u32::MAX).await?;
    if as_json {
        Console::get().print_json(&all)?;
        return Ok(Exit::Ready);
    }
    let mut table = Table::new(&USAGE_COLUMNS);
    all.iter().for_each(|tenant| table.add_row(build_row(tenant)));
    table.print();
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::TenantId;
    use unslide_store::tenants::{QuotaLimits, TenantStanding};

    #[test]
    fn a_row_has_the_units_of_its_columns_and_is_full_only_at_the_limit() {
        let tenant = |symbol_bytes| TenantFigures {
            id: TenantId::new("acme").unwrap(),
            name: "Acme".into(),
            state: TenantStanding::Active,
            limits: QuotaLimits::default(),
            reports_last_hour: 12,
            reports_last_day: 340,
            deferred_records: 5,
            symbol_bytes,
            pending_bytes: 1 << 20,
            symbol_limit_bytes: 1_000 << 20,
            uploads_waiting: 2,
            keys: 3,
            rank: 0,
        };
        let almost = build_row(&tenant((999 << 20) - 1));
        assert_eq!(almost, ["acme", "active", "12", "340", "5", "1000", "1000", "99", "2", "3"]);
        assert_eq!(build_row(&tenant(999 << 20))[7], "100");
        assert_eq!(build_row(&tenant(1_499 << 20))[7], "150");
    }

    #[test]
    fn an_order_is_read_by_its_name() {
        assert_eq!(FigureOrder::ALL.map(|order| read_order(order.as_str())), FigureOrder::ALL.map(Ok));
        assert!(read_order("size").is_err());
    }
}
