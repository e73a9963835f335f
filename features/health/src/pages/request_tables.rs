//! The tables of requests on the page of an app's health.

use super::prelude::counted;
use super::values::whole;
use crate::store::figures::requests::{AppRequests, FoldedRequests, RequestFigures};
use crate::store::metrics::{MOST_VALUES, MetricDimension};

/// Requests by one of their dimensions.
pub(super) struct RequestTable {
    pub(super) heading: &'static str,
    pub(super) column: &'static str,
    pub(super) rows: Vec<RequestFigures>,
    /// Says which requests have no row of their own.
    pub(super) folded: Option<String>,
}

/// Returns a table for each dimension that requests have values of.
pub(super) fn build_request_tables(found: AppRequests) -> Vec<RequestTable> {
    let AppRequests { hosts, endpoints, results, protocols, connections, folded, .. } = found;
    let lists = [
        (MetricDimension::Host, "Network requests by host", "Host", hosts),
        (MetricDimension::Endpoint, "Network requests by path", "Path", endpoints),
        (MetricDimension::RequestResult, "Network requests by result", "Result", results),
        (MetricDimension::Protocol, "Network requests by protocol", "Protocol", protocols),
        (MetricDimension::Connection, "Network requests by connection", "Connection", connections),
    ];
    let with_rows = lists.into_iter().filter(|(.., rows)| !rows.is_empty());
    let tables = with_rows.map(|(by, heading, column, rows)| {
        let folded = folded.iter().find(|folded| folded.by == by);
        RequestTable { heading, column, rows, folded: folded.map(describe_folded) }
    });
    tables.collect()
}

/// Says how many requests and values a table does not show under their own names.
fn describe_folded(folded: &FoldedRequests) -> String {
    let other = (folded.other > 0.0).then(|| {
        let requests = counted(whole(folded.other), "request counts", "requests count");
        format!(
            "{requests} as (other): {MOST_VALUES} values of a version and day have rows of their own, those with the most \
             requests when they first came."
        )
    });
    let unlisted = (folded.unlisted > 0).then(|| {
        let values = i64::try_from(folded.unlisted).unwrap_or(i64::MAX);
        format!("{} not shown, with fewer requests.", counted(values, "value is", "values are"))
    });
    [other, unlisted].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_it_folds() {
        let folded = |other, unlisted| {
            describe_folded(&FoldedRequests { by: MetricDimension::Endpoint, other, unlisted })
        };
        let rows = "200 values of a version and day have rows of their own, those with the most requests when they first came.";
        assert_eq!(folded(600.0, 0), format!("600 requests count as (other): {rows}"));
        assert_eq!(folded(0.0, 1), "1 value is not shown, with fewer requests.");
        assert_eq!(
            folded(1.0, 12),
            format!("1 request counts as (other): {rows} 12 values are not shown, with fewer requests.")
        );
    }
}
