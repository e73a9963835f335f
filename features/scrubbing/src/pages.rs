//! `/console/scrubbing`: the rules of a tenant.

use crate::operations::AppScrubbing;
use crate::operations::apply::apply_scrubbing;
use crate::operations::get::get_scrubbing;
use crate::operations::set::{NewScrubbing, set_scrubbing};
use crate::store::runs::{ScrubRun, ScrubRunStatus};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, JsonBody, Kind, Problem, TenantAdmin};
use unslide_scrubbing_rules::{
    KeepOnlyRule, KeyRule, OwnRule, ReadyPattern, ReadyRule, ScrubAction, ScrubConfig,
};
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const SCRUBBING_PAGE: &str = "/console/scrubbing";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(SCRUBBING_PAGE, get(show_rules).post(change_rules))
}

#[derive(Template)]
#[template(path = "scrubbing/scrubbing.html", askama = escaping)]
struct ScrubbingPage {
    shell: Shell,
    apps: Vec<AppScrubbing>,
    /// The last run over stored reports.
    run: Option<ScrubRun>,
    /// The ready patterns: their names and words.
    patterns: Vec<(&'static str, &'static str)>,
}

/// A rule as the table of an app has it.
struct RuleLine {
    name: String,
    takes: String,
    action: &'static str,
}

/// Returns a ready pattern in words.
fn describe_pattern(pattern: ReadyPattern) -> &'static str {
    match pattern {
        ReadyPattern::Email => "E-mail addresses",
        ReadyPattern::UserPath => "The user's name in paths of home folders",
        ReadyPattern::Coordinates => "Coordinates of places",
        ReadyPattern::Iban => "Account numbers (IBAN)",
        ReadyPattern::Card => "Card numbers",
        ReadyPattern::Ip => "IP addresses",
        ReadyPattern::Phone => "Phone numbers",
        ReadyPattern::Token => "Keys, tokens and passwords",
    }
}

/// Lists the rules of an app.
fn list_lines(config: &ScrubConfig) -> Vec<RuleLine> {
    let ready = config.ready.iter().map(|rule| RuleLine {
        name: rule.pattern.as_str().to_owned(),
        takes: describe_pattern(rule.pattern).to_owned(),
        action: rule.action.as_str(),
    });
    let own = config.own.iter().map(|rule| RuleLine {
        name: rule.name.clone(),
        takes: rule.pattern.clone(),
        action: rule.action.as_str(),
    });
    let keys = config.keys.iter().map(|rule| RuleLine {
        name: "key".to_owned(),
        takes: rule.key.clone(),
        action: rule.action.as_str(),
    });
    let kept = config.keep_only.iter().map(|rule| RuleLine {
        name: "key".to_owned(),
        takes: format!("all keys but {}", rule.keys.join(", ")),
        action: rule.action.as_str(),
    });
    ready.chain(own).chain(keys).chain(kept).collect()
}

async fn show_rules(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let Json(found) = get_scrubbing(State(storage), signed.access).await?;
    render_html(&ScrubbingPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Scrubbing"),
        apps: found.items,
        run: found.run,
        patterns: ReadyPattern::ALL.map(|pattern| (pattern.as_str(), describe_pattern(pattern))).to_vec(),
    })
}

/// Returns in a sentence how far a run is.
fn describe_run(run: &ScrubRun) -> String {
    let state = match run.status {
        ScrubRunStatus::Running => "The rules are being applied",
        ScrubRunStatus::Done => "The rules were applied",
        ScrubRunStatus::Failed => "The run was given up, start it again",
    };
    let unreadable = match run.unreadable {
        0 => String::new(),
        some => format!(", {some} could not be read"),
    };
    format!("{state}: {} reports looked at, {} changed{unreadable}.", run.looked, run.changed)
}

async fn change_rules(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    if form.has_field("apply") {
        let _started = apply_scrubbing(State(storage), signed.access).await?;
        return Ok(Redirect::to(SCRUBBING_PAGE).into_response());
    }
    let rules = if form.has_field("remove") { None } else { Some(read_rules(&form)?) };
    let new = NewScrubbing { app: form.field_text("app"), rules };
    let _set = set_scrubbing(State(storage), signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(SCRUBBING_PAGE).into_response())
}

/// Reads the rules of a form. Absent ones are no rules.
fn read_rules(form: &SentForm) -> Result<ScrubConfig, Problem> {
    let mut config = ScrubConfig::default();
    for pattern in ReadyPattern::ALL {
        if let Some(word) = form.get(pattern.as_str()) {
            config.ready.push(ReadyRule { pattern, action: read_action(pattern.as_str(), word)? });
        }
    }
    for (at, line) in read_lines(form, "own") {
        let mut words = line.splitn(3, char::is_whitespace);
        let (Some(name), Some(action), Some(pattern)) = (words.next(), words.next(), words.next()) else {
            let detail = format!("own: line {at} needs a name, an action and a pattern");
            return Err(Problem::new(Kind::InvalidBody, detail));
        };
        let action = read_action(&format!("own: line {at}"), action)?;
        config.own.push(OwnRule { name: name.to_owned(), pattern: pattern.trim().to_owned(), action });
    }
    for (at, line) in read_lines(form, "keys") {
        let (action, key) = line.split_once(char::is_whitespace).ok_or_else(|| {
            Problem::new(Kind::InvalidBody, format!("keys: line {at} needs an action and a key"))
        })?;
        let action = read_action(&format!("keys: line {at}"), action)?;
        config.keys.push(KeyRule { key: key.trim().to_owned(), action });
    }
    if let Some(word) = form.get("keep_action") {
        let keys = read_lines(form, "keep").map(|(_, key)| key.to_owned()).collect();
        config.keep_only = Some(KeepOnlyRule { keys, action: read_action("keep_action", word)? });
    }
    Ok(config)
}

/// Returns the lines of a field that are not empty, with their numbers.
fn read_lines<'f>(form: &'f SentForm, field: &'f str) -> impl Iterator<Item = (usize, &'f str)> {
    let lines = form.get(field).unwrap_or_default().lines().enumerate();
    lines.map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

fn read_action(field: &str, word: &str) -> Result<ScrubAction, Problem> {
    let refused = || Problem::new(Kind::InvalidBody, format!("{field}: mask, hash or drop"));
    ScrubAction::parse(word).ok_or_else(refused)
}
