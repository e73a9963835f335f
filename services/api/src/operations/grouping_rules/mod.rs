//! A tenant's own rules of grouping.

mod get;
mod set;
mod trial;

pub use get::get_grouping_rules;
pub use set::{NewGroupingRules, set_grouping_rules};
pub use trial::{GroupingRulesEffect, GroupingRulesTrial, try_grouping_rules};

use crate::operations::prelude::*;
use unslide_symbolicate::grouping::GroupingRules;

/// The routes of this folder.
pub fn grouping_rule_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_grouping_rules, set::set_grouping_rules))
        .routes(routes!(trial::try_grouping_rules))
}

/// Parses rules, or returns all errors in the text.
fn parse_rules(text: &str) -> Result<GroupingRules, Problem> {
    GroupingRules::parse(text).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Problem::new(Kind::InvalidBody, format!("text: {}", problems.join("; ")))
    })
}

/// The reason why a key for one app is refused.
const OF_EVERY_APP: &str = "grouping rules are of every app";
