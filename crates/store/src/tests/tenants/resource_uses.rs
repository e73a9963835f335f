//! What tenants used, by day.

use crate::resource_uses::{
    SumKind, UseStatement, UsesFilter, add_statements, add_uses, list_daily_uses, sum_uses,
};
use crate::tests::database::{Database, acme, start, tenant_id};
use std::collections::BTreeMap;
use time::Duration;
use unslide_model::{ResourceUse, ResourceUses, TenantId};

fn stored(stored: u64) -> ResourceUse {
    ResourceUse { stored, cpu_micros: 10 * stored, ..ResourceUse::default() }
}

fn uses(of: &[(Option<TenantId>, u64)]) -> ResourceUses {
    of.iter().map(|(tenant, amount)| (tenant.clone(), stored(*amount))).collect()
}

#[tokio::test]
async fn uses_add_up_by_tenant_and_day_and_a_statement_counts_once() {
    let database = Database::new().await;
    let (own, other) = (acme(), tenant_id("umbrella"));
    let unknown = TenantId::new("nobody").unwrap();
    let first = uses(&[(Some(own.clone()), 5), (Some(other.clone()), 1), (Some(unknown), 2), (None, 3)]);
    add_uses(database.store.clone(), first).await.unwrap();
    add_uses(database.store.clone(), uses(&[(Some(own.clone()), 5)])).await.unwrap();
    let at = start() + Duration::hours(1);
    let statement =
        |at| UseStatement { worker: "symbolizer-0".to_owned(), at, uses: uses(&[(Some(own.clone()), 100)]) };
    for at in [at, at, at - Duration::minutes(1), at + Duration::minutes(1)] {
        let mut tx = database.store.batch().await.unwrap();
        add_statements(&mut tx, &[&statement(at)]).await.unwrap();
        tx.commit().await.unwrap();
    }
    let day = start().date();
    let filter = UsesFilter { from: day, to: day, tenant: None };
    let listed = list_daily_uses(&database.store, &filter, None, 10).await.unwrap();
    let rows: Vec<_> = listed.iter().map(|row| (row.tenant.clone(), row.stored, row.cpu_micros)).collect();
    let rest = (None, 5, 50);
    assert_eq!(rows, [(Some(own.clone()), 210, 2_100), (Some(other.clone()), 1, 10), rest]);
    // From each row on, the list goes on with the next.
    for (index, row) in listed.iter().enumerate() {
        let after = (row.day, row.tenant.clone());
        let next = list_daily_uses(&database.store, &filter, Some(&after), 10).await.unwrap();
        assert_eq!(next, listed[index + 1..]);
    }
    let only = UsesFilter { tenant: Some(other.clone()), ..filter };
    assert_eq!(list_daily_uses(&database.store, &only, None, 10).await.unwrap(), listed[1..2]);
    let sums = sum_uses(&database.store, day, day, 1).await.unwrap();
    let sums: BTreeMap<_, _> =
        sums.iter().map(|sum| (sum.kind.as_str(), (sum.tenants, sum.stored))).collect();
    let told = [
        (SumKind::Tenant.as_str(), (1, 210)),
        (SumKind::Others.as_str(), (1, 1)),
        (SumKind::Rest.as_str(), (0, 5)),
    ];
    assert_eq!(sums, BTreeMap::from(told));
}
