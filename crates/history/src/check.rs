//! Findings about a server, and whether its rows are closed to other users.

use crate::schema::{OTHERS_POLICY, SERVICE_POLICY, SchemaNames};
use serde::Deserialize;

/// A server as [`crate::History::check`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryCheck {
    /// The server's version, such as `25.8.1.5101`.
    pub version: String,
    /// True if the tables are there.
    pub has_schema: bool,
    /// Who may read rows.
    pub policies: HistoryPolicies,
    /// The problem of the cluster of the settings. None: it has none, or there is no cluster.
    pub cluster_problem: Option<String>,
}

/// Who may read the rows of moved reports by the server's row policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryPolicies {
    /// Only the user of the services.
    Closed,
    /// Other users may, or it cannot be told: the reason, and what to do.
    Open(String),
    /// The server keeps no users and policies that statements make, as the engine inside of a program.
    NoAccessControl,
}

/// A row of `system.row_policies`, in the order of these fields.
#[derive(Deserialize)]
pub(crate) struct FoundPolicy {
    pub(crate) short_name: String,
    pub(crate) table: String,
    pub(crate) select_filter: String,
    pub(crate) is_restrictive: u8,
    pub(crate) apply_to_all: u8,
    pub(crate) apply_to_except: Vec<String>,
}

/// Judges the policies of the database. A policy that lets other users read is named.
pub(crate) fn judge_policies(names: &SchemaNames, user: &str, found: &[FoundPolicy]) -> HistoryPolicies {
    for table in names.tables() {
        let is_closed = found.iter().any(|policy| {
            policy.table == table
                && policy.short_name == OTHERS_POLICY
                && policy.apply_to_all == 1
                && policy.apply_to_except == [user]
                && is_nothing(&policy.select_filter)
        });
        if !is_closed {
            return HistoryPolicies::Open(format!(
                "no policy {OTHERS_POLICY} closes {}.{table} to users other than {user}: run `unslide migrate`",
                names.database
            ));
        }
    }
    let opens = |policy: &&FoundPolicy| {
        policy.is_restrictive == 0
            && policy.short_name != SERVICE_POLICY
            && !is_nothing(&policy.select_filter)
    };
    match found.iter().find(opens) {
        Some(policy) => HistoryPolicies::Open(format!(
            "the policy {} lets other users read {}.{}: drop it",
            policy.short_name, names.database, policy.table
        )),
        None => HistoryPolicies::Closed,
    }
}

fn is_nothing(filter: &str) -> bool {
    ["0", "false", "FALSE"].contains(&filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HistorySettings;

    fn policy(short_name: &str, select_filter: &str) -> FoundPolicy {
        let is_others = short_name == OTHERS_POLICY;
        FoundPolicy {
            short_name: short_name.into(),
            table: "reports".into(),
            select_filter: select_filter.into(),
            is_restrictive: 0,
            apply_to_all: u8::from(is_others),
            apply_to_except: if is_others { vec!["unslide".into()] } else { Vec::new() },
        }
    }

    #[test]
    fn rows_are_closed_by_our_policy_unless_another_opens_them() {
        let names = SchemaNames::from_settings(&HistorySettings::default()).unwrap();
        let judge = |found: &[FoundPolicy]| judge_policies(&names, "unslide", found);
        let ours = || vec![policy(SERVICE_POLICY, "1"), policy(OTHERS_POLICY, "0")];
        assert_eq!(judge(&ours()), HistoryPolicies::Closed);
        let none = judge(&[]);
        assert!(
            matches!(&none, HistoryPolicies::Open(reason) if reason.contains("unslide migrate")),
            "{none:?}"
        );
        let mut found = ours();
        found.push(policy("analysts", "tenant = 'acme'"));
        let opened = judge(&found);
        assert!(
            matches!(&opened, HistoryPolicies::Open(reason) if reason.contains("analysts")),
            "{opened:?}"
        );
        found[2].is_restrictive = 1;
        assert_eq!(judge(&found), HistoryPolicies::Closed);
        found[1].apply_to_except.push("bob".into());
        assert!(matches!(judge(&found), HistoryPolicies::Open(_)));
    }
}
