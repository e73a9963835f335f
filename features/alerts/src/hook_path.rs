//! Addresses of the hooks by which pagers acknowledge.

use crate::ids::AlertRuleId;

/// The begin of the path; the tenant and the id of the rule follow.
pub const HOOKS_PATH: &str = "/v1/hooks/alerts/";

/// Returns the path of the hooks of a rule.
pub fn hook_path(tenant: &str, rule: AlertRuleId) -> String {
    format!("{HOOKS_PATH}{tenant}.{rule}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_api::feature::hooks::parse_hook_id;
    use unslide_model::TenantId;

    #[test]
    fn the_path_of_a_hook_names_tenant_and_rule() {
        let rule: AlertRuleId = "0b5c1d2e-0000-4000-8000-000000000001".parse().unwrap();
        let path = hook_path("acme", rule);
        let expected = Some((TenantId::new("acme").unwrap(), rule));
        assert_eq!(parse_hook_id(path.strip_prefix(HOOKS_PATH).unwrap()), expected);
        for text in ["", "acme", "acme.", ".0b5c1d2e-0000-4000-8000-000000000001", "acme.x"] {
            assert_eq!(parse_hook_id::<AlertRuleId>(text), None, "{text}");
        }
    }
}
