//! Commands that change groups: one at a time, or up to 100 at once.

use super::format_state;
use crate::prelude::*;
use reqwest::Method;
use unslide_cli::listing::item_text;
use unslide_model::{Clock, GroupRef, Moment, SystemClock};

/// The group that something is done with.
#[derive(Args)]
pub struct Target {
    #[command(flatten)]
    pub server: ApiServer,
    /// The id or the short id of the group
    pub id: GroupRef,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// The groups that something is done with.
#[derive(Args)]
pub struct Targets {
    #[command(flatten)]
    server: ApiServer,
    /// The ids or short ids of the groups, at most 100
    #[arg(required = true)]
    ids: Vec<GroupRef>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Conditions that open an ignored group again.
#[derive(Args)]
pub struct IgnoreArguments {
    /// Open it again at this time, such as 2026-12-01T09:00:00Z, or after a duration such as 7d
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Open it again when it has this many reports more
    #[arg(long, value_name = "NUMBER")]
    more_reports: Option<u32>,
    /// Open it again when it has this many devices more
    #[arg(long, value_name = "NUMBER")]
    more_devices: Option<u32>,
    /// Open it again when a report of a version after the newest one comes
    #[arg(long)]
    until_next_version: bool,
}

impl IgnoreArguments {
    /// Returns the change in the form of the API.
    pub fn to_body(&self) -> Value {
        let now = SystemClock.now_micros() / 1_000;
        let mut body = json!({"status": "ignored"});
        if let Some(until) = self.until {
            body["ignore_until"] = match until {
                Moment::At(_) | Moment::DaysAgo(_) => until.as_text(now),
                // A duration goes into the future here.
                Moment::For(millis) => Moment::For(-millis).as_text(now),
            }
            .into();
        }
        if let Some(number) = self.more_reports {
            body["ignore_more_reports"] = number.into();
        }
        if let Some(number) = self.more_devices {
            body["ignore_more_devices"] = number.into();
        }
        if self.until_next_version {
            body["ignore_until_next_version"] = true.into();
        }
        body
    }
}

/// Returns the change that resolves a group.
pub fn build_resolved(in_version: Option<String>, in_next_version: bool) -> Value {
    let mut body = json!({"status": "resolved"});
    if let Some(version) = in_version {
        body["resolved_in"] = version.into();
    }
    if in_next_version {
        body["resolved_in_next"] = true.into();
    }
    body
}

/// Changes one group, or merges or splits it, and prints it.
pub async fn change_group(target: &Target, path: &str, body: &Value) -> Outcome {
    let client = Client::new(&target.server)?;
    let address = format!("/v1/groups/{}{path}", target.id);
    let method = if path.is_empty() { Method::PATCH } else { Method::POST };
    let group: Value = client.send_json(method, &address, body).await?;
    if target.json {
        Console::get().print_json(&group)?;
    } else if group.is_null() {
        say!("{}  done; the key may not read groups", target.id);
    } else {
        let count = group["reports"].as_u64().unwrap_or(0);
        let noun = if count == 1 { "report" } else { "reports" };
        say!("{}  {}  {count} {noun}  {}", target.id, format_state(&group), item_text(&group, "title"));
    }
    Ok(Exit::Ready)
}

/// Adds a comment to a group, and prints the comment's id.
pub async fn comment_on_group(target: &Target, text: &str) -> Outcome {
    let path = format!("/v1/groups/{}/comments", target.id);
    let added: Value = Client::new(&target.server)?.post(&path, &json!({"text": text})).await?;
    if target.json {
        Console::get().print_json(&added)?;
    } else {
        say!("{}  comment {}", target.id, item_text(&added, "id"));
    }
    Ok(Exit::Ready)
}

/// Makes one change of one or several groups.
pub async fn change_groups(targets: Targets, body: &Value) -> Outcome {
    let Targets { server, ids, json } = targets;
    if let [id] = ids.as_slice() {
        return change_group(&Target { server, id: id.clone(), json }, "", body).await;
    }
    let groups: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let body = json!({"groups": groups, "change": body});
    let client = Client::new(&server)?;
    let answer: Value = client.send_json(Method::POST, "/v1/groups/changes", &body).await?;
    let outcomes = answer["outcomes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if json {
        Console::get().print_json(&answer)?;
    } else {
        for (id, outcome) in ids.iter().zip(outcomes) {
            let detail = item_text(outcome, "detail");
            say!("{id}  {}  {detail}", item_text(outcome, "outcome"));
        }
    }
    let is_whole = answer["done"].as_u64() == u64::try_from(ids.len()).ok();
    Ok(if is_whole { Exit::Ready } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_group_is_opened_in_the_future() {
        let ignore = IgnoreArguments {
            until: "7d".parse().ok(),
            more_reports: Some(5),
            more_devices: None,
            until_next_version: true,
        };
        let body = ignore.to_body();
        assert_eq!((&body["status"], &body["ignore_more_reports"]), (&json!("ignored"), &json!(5)));
        let now = Moment::For(0).as_text(SystemClock.now_micros() / 1_000);
        assert!(item_text(&body, "ignore_until") > now);
    }
}
