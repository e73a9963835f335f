//! Gauges of single tenants: the largest by name, all others together.

use prometheus::core::{Atomic, AtomicF64, AtomicI64, GenericGaugeVec};
use prometheus::{Error, Registry};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use unslide_runtime::MetricFactory;
use unslide_store::figures::TenantFigures;

/// Number of tenants that each figure names.
const NAMED_TENANTS_LIMIT: usize = 20;
/// The label of all other tenants together. No slug begins with `~`.
const OTHERS: &str = "~other";
const LABELS: [&str; 1] = ["tenant"];

/// Gauges of one figure, and the tenants that have one.
struct LargestTenants<P: Atomic> {
    gauges: GenericGaugeVec<P>,
    named: BTreeSet<String>,
}

impl<P: Atomic> LargestTenants<P> {
    fn new(gauges: GenericGaugeVec<P>) -> LargestTenants<P> {
        LargestTenants { gauges, named: BTreeSet::new() }
    }

    /// Sets the gauges of these tenants, and removes all others.
    fn set_gauges(&mut self, values: Vec<(&str, P::T)>) {
        let named: BTreeSet<String> = values.iter().map(|(tenant, _)| (*tenant).to_owned()).collect();
        for gone in self.named.difference(&named) {
            // The gauge exists: only this function adds and removes gauges.
            let _ = self.gauges.remove_label_values(&[gone]);
        }
        for (tenant, value) in values {
            self.gauges.with_label_values(&[tenant]).set(value);
        }
        self.named = named;
    }
}

/// The figures of tenants as gauges: reports, deferred records, bytes of symbols, and the used share of their limit.
pub struct TenantGauges {
    reports: LargestTenants<AtomicI64>,
    deferred: LargestTenants<AtomicI64>,
    symbols: LargestTenants<AtomicI64>,
    shares: LargestTenants<AtomicF64>,
}

impl TenantGauges {
    /// Registers the gauges.
    ///
    /// # Errors
    /// Returns an error if the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<TenantGauges, Error> {
        let make = MetricFactory(registry);
        Ok(TenantGauges {
            reports: LargestTenants::new(make.register_gauges(
                "unslide_tenant_reports",
                "Reports stored in the last hour, of the 20 tenants with the most and of all others.",
                &LABELS,
            )?),
            deferred: LargestTenants::new(make.register_gauges(
                "unslide_tenant_deferred_records",
                "Deferred records, of the 20 tenants with the most and of all others.",
                &LABELS,
            )?),
            symbols: LargestTenants::new(make.register_gauges(
                "unslide_tenant_symbol_bytes",
                "Bytes of symbols and other files, stored and pending, of the 20 tenants with the most and of all others.",
                &LABELS,
            )?),
            shares: LargestTenants::new(make.float_gauges(
                "unslide_tenant_symbol_limit_ratio",
                "Used share of the limit on symbols, of the 20 fullest tenants, and the highest of all others.",
                &LABELS,
            )?),
        })
    }

    /// Sets the gauges to the figures of all tenants.
    pub fn set_figures(&mut self, tenants: &[TenantFigures]) {
        let count = |value: fn(&TenantFigures) -> u64| {
            let value = |tenant: &TenantFigures| i64::try_from(value(tenant)).unwrap_or(i64::MAX);
            choose_largest(tenants, value, i64::saturating_add)
        };
        self.reports.set_gauges(count(|tenant| tenant.reports_last_hour));
        self.deferred.set_gauges(count(|tenant| tenant.deferred_records));
        self.symbols.set_gauges(count(TenantFigures::used_bytes));
        self.shares.set_gauges(choose_largest(tenants, TenantFigures::symbol_share, f64::max));
    }
}

/// Returns the tenants with the largest values, by slug among equals, and last the values of all others folded into one, if
/// there are others.
fn choose_largest<V: PartialOrd>(
    tenants: &[TenantFigures],
    value: impl Fn(&TenantFigures) -> V,
    fold: impl Fn(V, V) -> V,
) -> Vec<(&str, V)> {
    let mut values: Vec<(&str, V)> = tenants.iter().map(|one| (one.id.as_str(), value(one))).collect();
    values.sort_by(|one, other| {
        other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal).then_with(|| one.0.cmp(other.0))
    });
    let others = values.split_off(NAMED_TENANTS_LIMIT.min(values.len()));
    let others = others.into_iter().map(|(_, value)| value).reduce(fold);
    values.extend(others.map(|value| (OTHERS, value)));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use unslide_model::TenantId;
    use unslide_store::tenants::{QuotaLimits, TenantStanding};

    /// A tenant with so many reports and bytes of symbols, of 1,000 that it may have.
    fn figures(slug: &str, reports: u64, symbol_bytes: u64) -> TenantFigures {
        TenantFigures {
            id: TenantId::new(slug).unwrap(),
            name: slug.to_owned(),
            state: TenantStanding::Active,
            limits: QuotaLimits::default(),
            reports_last_hour: reports,
            reports_last_day: reports,
            deferred_records: 0,
            symbol_bytes,
            pending_bytes: 0,
            symbol_limit_bytes: 1_000,
            uploads_waiting: 0,
            keys: 0,
            rank: 0,
        }
    }

    fn reports(tenants: &[TenantFigures]) -> Vec<(&str, u64)> {
        choose_largest(tenants, |tenant| tenant.reports_last_hour, u64::saturating_add)
    }

    #[test]
    fn the_20_largest_have_names_and_the_others_are_summed() {
        let tenants: Vec<TenantFigures> = (1..=25).map(|n| figures(&format!("t-{n:02}"), n, n)).collect();
        let chosen = reports(&tenants);
        assert_eq!((chosen.len(), chosen[0], chosen[19]), (21, ("t-25", 25), ("t-06", 6)));
        assert_eq!(chosen[20], (OTHERS, 1 + 2 + 3 + 4 + 5));
        let shares = choose_largest(&tenants, TenantFigures::symbol_share, f64::max);
        assert_eq!((shares[0], shares[20]), (("t-25", 0.025), (OTHERS, 0.005)));
    }

    #[test]
    fn equal_tenants_are_chosen_by_slug_and_a_few_leave_no_others() {
        let tenants: Vec<TenantFigures> =
            (1..=21).rev().map(|n| figures(&format!("t-{n:02}"), 0, 0)).collect();
        let chosen = reports(&tenants);
        assert_eq!((chosen[0].0, chosen[19].0, chosen[20]), ("t-01", "t-20", (OTHERS, 0)));
        assert_eq!(reports(&tenants[1..]).len(), 20);
        assert_eq!(reports(&[]), []);
        assert!(TenantId::new(OTHERS).is_err(), "no tenant has this label");
    }

    /// The values of a metric by tenant.
    fn shown(registry: &Registry, name: &str) -> BTreeMap<String, String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let start = format!("{name}{{tenant=\"");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&start)?.split_once("\"} "));
        lines.map(|(tenant, value)| (tenant.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_tenant_that_is_not_among_the_largest_any_more_has_no_gauge() {
        let registry = Registry::new();
        let mut gauges = TenantGauges::new(&registry).unwrap();
        let mut tenants: Vec<TenantFigures> =
            (1..=21).map(|n| figures(&format!("t-{n:02}"), 100, 900)).collect();
        gauges.set_figures(&tenants);
        let reports = shown(&registry, "unslide_tenant_reports");
        assert_eq!((reports.len(), reports.get("t-21")), (21, None));
        assert_eq!(reports[OTHERS], "100");
        tenants[0].reports_last_hour = 1;
        tenants[20].symbol_bytes = 1_500;
        gauges.set_figures(&tenants);
        let reports = shown(&registry, "unslide_tenant_reports");
        assert_eq!((reports.get("t-01"), &*reports["t-21"], &*reports[OTHERS]), (None, "100", "1"));
        let shares = shown(&registry, "unslide_tenant_symbol_limit_ratio");
        assert_eq!((&*shares["t-21"], &*shares[OTHERS], shares.get("t-20")), ("1.5", "0.9", None));
        assert_eq!(shown(&registry, "unslide_tenant_symbol_bytes")["t-21"], "1500");
        gauges.set_figures(&tenants[..1]);
        assert_eq!(shown(&registry, "unslide_tenant_reports").into_keys().collect::<Vec<_>>(), ["t-01"]);
        gauges.set_figures(&[]);
        assert!(shown(&registry, "unslide_tenant_deferred_records").is_empty());
    }
}
