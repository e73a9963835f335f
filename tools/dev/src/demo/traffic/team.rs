//! The actions of the Cafe's team before the bad release and after it.

use super::builds::{BAD_VERSION, CAFE, REPAIR_VERSION};
use super::{BoxError, Client, DEADLOCK, GIFT, HANG, Sent};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The version with the bugs that the team looks at.
const VERSION: &str = "2.4.0";
/// The bug that the bad release brings back, and the most frequent one.
const PAYMENT: usize = 1;
const CART: usize = 0;

/// Makes alert rules, leads to the repository, and works on the groups of these reports.
pub async fn work(client: &Client, reports: &[Sent]) -> Result<(), BoxError> {
    let groups = groups(client, VERSION, reports).await?;
    let group = |bug: usize| groups.get(&bug).cloned().ok_or("a bug of the demo has no group");
    for (method, path, body) in actions(&group)? {
        let _: Value = client.send_json(method, &path, &body).await?;
    }
    Ok(())
}

/// Resolves the bug that is new in the bad release, in the version that mends it.
pub async fn mend(client: &Client, reports: &[Sent]) -> Result<(), BoxError> {
    let groups = groups(client, BAD_VERSION, reports).await?;
    let group = groups.get(&GIFT).ok_or("the bug of the bad release has no group")?;
    let resolved = json!({"status": "resolved", "resolved_in": REPAIR_VERSION});
    let _: Value = client.send_json(Method::PATCH, &format!("/v1/groups/{group}"), &resolved).await?;
    Ok(())
}

/// Returns the group of each bug that a version has.
async fn groups(
    client: &Client,
    version: &str,
    reports: &[Sent],
) -> Result<BTreeMap<usize, String>, BoxError> {
    let path = format!("/v1/reports?app={CAFE}&version={version}&limit=500");
    let page: Value = client.get(&path).await?;
    let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let group_of = |id: &str| {
        let item =
            items.iter().find(|item| item["id"].as_str().is_some_and(|other| other.eq_ignore_ascii_case(id)));
        Some(item?["group"].as_str()?.to_owned())
    };
    Ok(reports.iter().filter_map(|sent| Some((sent.bug, group_of(&sent.id)?))).collect())
}

/// Returns the requests to the API, in this order.
fn actions(
    group: &impl Fn(usize) -> Result<String, &'static str>,
) -> Result<[(Method, String, Value); 7], &'static str> {
    let rule = |name: &str, condition: &str| {
        let rule = json!({"name": name, "app": CAFE, "condition": condition, "channel": "kafka"});
        (Method::POST, "/v1/alert-rules".to_owned(), rule)
    };
    let [payment, cart] = [PAYMENT, CART].map(|bug| group(bug).map(|id| format!("/v1/groups/{id}")));
    let (payment, cart) = (payment?, cart?);
    let settings = json!({"app": CAFE, "source_root": "/Users/ci/Cafe",
                          "source_url": "https://git.example.com/cafe/blob/v{version}/{path}#L{line}"});
    let comment = json!({"text": "A total that overflows stops the app. Mended with the next release."});
    Ok([
        (Method::PUT, "/v1/app-settings".to_owned(), settings),
        rule("New bugs of the Cafe", "new_group"),
        rule("Bugs that are back", "regression"),
        (Method::POST, format!("{payment}/comments"), comment),
        (Method::PATCH, payment, json!({"status": "resolved", "resolved_in": "2.4.1"})),
        (Method::PATCH, cart, json!({"assignee": "Kim"})),
        (Method::POST, format!("/v1/groups/{}/merge", group(HANG)?), json!({"groups": [group(DEADLOCK)?]})),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_team_makes_rules_and_works_on_groups() {
        let actions = actions(&|bug| Ok(format!("g{bug}"))).unwrap();
        let sent = actions.iter().map(|(method, path, _)| format!("{method} {path}"));
        assert_eq!(
            sent.collect::<Vec<_>>(),
            [
                "PUT /v1/app-settings",
                "POST /v1/alert-rules",
                "POST /v1/alert-rules",
                "POST /v1/groups/g1/comments",
                "PATCH /v1/groups/g1",
                "PATCH /v1/groups/g0",
                "POST /v1/groups/g3/merge",
            ]
        );
        assert_eq!(actions[6].2, json!({"groups": ["g11"]}));
        assert!(super::actions(&|_| Err("none")).is_err());
    }
}
