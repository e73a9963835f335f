//! The views for Grafana: what the role of a tenant reads.

use crate::reports::{self, Effects};
use crate::tests::database::{Database, acme, arrival, execute, tenant_id};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};
use unslide_model::{QuantileSketch, TenantId};

const VIEWS: &str = include_str!("../../../../../deploy/grafana/statistics.sql");
const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/app.json");

/// The queries of the dashboard, as Grafana sends them for an app.
fn queries(app: &str) -> Vec<String> {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().map(|panel| &panel["targets"][0]["rawSql"]);
    let queries =
        targets.map(|query| query.as_str().unwrap().replace("${app:sqlstring}", &format!("'{app}'")));
    // A macro with a column for its argument.
    let queries = queries.map(|query| {
        let (before, after) = query.split_once("$__timeFilter(").unwrap();
        let (column, rest) = after.split_once(')').unwrap();
        format!("{before}{column} > '2000-01-01'{rest}")
    });
    queries.collect()
}

/// A group of two reports and a session of an app that is called like the tenant.
async fn fill(database: &Database, tenant: &TenantId) {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let mut arrivals = [arrival(1), arrival(4)];
    for arrival in &mut arrivals {
        arrival.facts.app = tenant.to_string();
        arrival.facts.grouping = Some(crate::tests::database::grouping(1, false));
    }
    reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    execute(database, &figures(tenant.as_str())).await;
}

/// The counts of sessions and of metrics that a feature would write.
fn figures(app: &str) -> String {
    let mut launches = QuantileSketch::default();
    launches.add_value(800.0, 1_000);
    launches.add_value(1_600.0, 1_000);
    let launches = crate::json::format_bytes(&launches.to_bytes());
    format!(
        "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, squares, installations,
                                   crashed_installations, users, crashed_users)
         VALUES ('{app}', '{app}', '1.0', now()::date, 1, 0, 1, '', '', '', '');
         INSERT INTO metric_days (tenant, app, version, dimension, day, value, metric, observations, failed, squares,
                                  sampled, sketch)
         SELECT '{app}', '{app}', '1.0', d.dimension, now()::date, d.value, m.metric, 2, 0, 4, false, '{launches}'
         FROM unnest(ARRAY['launch_time', 'hang_rate', 'requests']) AS m (metric),
              (VALUES ('', ''), ('model', 'iPhone16,1'), ('os_version', 'iOS 26.1')) AS d (dimension, value)"
    )
}

/// A transaction of a new role, which ends with the transaction.
async fn rows(database: &Database, role: &str, query: &str) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let enter = format!(
        "CREATE ROLE \"{role}\" LOGIN IN ROLE unslide_stats; SET LOCAL SESSION AUTHORIZATION \"{role}\""
    );
    sqlx::raw_sql(AssertSqlSafe(enter)).execute(&mut *tx).await.unwrap();
    let rows = sqlx::raw_sql(AssertSqlSafe(query.to_owned())).fetch_all(&mut *tx).await;
    tx.rollback().await.unwrap();
    rows
}

/// Proves: isolation
#[tokio::test]
async fn every_panel_shows_the_tenant_of_the_role_and_no_other() {
    let database = Database::new().await;
    let umbrella = tenant_id("umbrella");
    fill(&database, &acme()).await;
    fill(&database, &umbrella).await;
    // It can be run again.
    execute(&database, VIEWS).await;
    execute(&database, VIEWS).await;
    for (role, own) in [("unslide_stats_acme", "acme"), ("unslide_stats_umbrella", "umbrella")] {
        for app in ["acme", "umbrella"] {
            for query in queries(app) {
                let found =
                    rows(&database, role, &query).await.unwrap_or_else(|error| panic!("{error}: {query}"));
                assert_eq!(!found.is_empty(), app == own, "{role}: {query}");
            }
        }
    }
    for role in ["unslide_stats_", "unslide_stats_none", "grafana_stats_acme"] {
        let seen = rows(&database, role, "SELECT count(*) FROM unslide_stats.groups").await.unwrap();
        assert_eq!(seen[0].get::<i64, _>(0), 0, "{role}");
    }
    let values = "SELECT string_agg(value::integer || '*' || weight, ' ' ORDER BY value)
                  FROM unslide_stats.metric_values WHERE metric = 'launch_time'";
    let seen = rows(&database, "unslide_stats_acme", values).await.unwrap();
    let seen: String = seen[0].get(0);
    let read: Vec<(f64, f64)> = seen
        .split(' ')
        .filter_map(|pair| pair.split_once('*'))
        .map(|(value, weight)| (value.parse().unwrap(), weight.parse().unwrap()))
        .collect();
    let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.011;
    assert!(matches!(*read, [(a, 1.0), (b, 1.0)] if near(a, 800.0) && near(b, 1_600.0)), "{seen}");
    for query in [
        "SELECT tenant FROM public.reports",
        "SELECT device FROM public.group_devices",
        "SELECT device FROM public.group_deltas",
        "SELECT assignee FROM public.groups",
        "SELECT slug FROM public.tenants",
        "DELETE FROM unslide_stats.groups",
        "SET ROLE unslide_service",
    ] {
        let refused = rows(&database, "unslide_stats_acme", query).await.unwrap_err();
        let code = refused.as_database_error().and_then(sqlx::error::DatabaseError::code);
        assert_eq!(code.as_deref(), Some("42501"), "{query}");
    }
}
