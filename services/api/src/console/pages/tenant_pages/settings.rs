//! `/console/settings`: what the tenant chose: where its apps' source code is, which signals they keep, and its rules of
//! grouping.

use crate::console::form::SentForm;
use crate::console::session::SignedIn;
use crate::console::shell::{Shell, html};
use crate::console::words::{When, counted, grouped, shown, shown_or};
use crate::http::problem::Problem;
use crate::operations::apps::settings::{NewAppSettings, set_app_settings};
use crate::operations::grouping_rules::{
    GroupingRulesEffect, GroupingRulesTrial, NewGroupingRules, get_grouping_rules, set_grouping_rules,
    try_grouping_rules,
};
use crate::requests::access::{Access, TenantAdmin};
use crate::requests::input;
use crate::state::Api;
use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use unslide_store::app_settings::{self, AppSettings, AppWithSettings};
use unslide_store::app_signals::{AppSignal, SignalSettings};
use unslide_store::queries::apps;

const PATH: &str = "/console/settings";
/// Apps with settings that the page shows.
const MOST_SHOWN: u32 = 200;
/// Apps without settings that the page offers.
const MOST_OFFERED: u32 = 50;

#[derive(Template)]
#[template(path = "console/settings.html")]
struct SettingsPage {
    shell: Shell,
    apps: Vec<SettingsForm>,
    others: Vec<String>,
    /// What an app without settings has.
    usual: SettingsForm,
    /// Absent for a key of one app: the rules are of all apps.
    rules: Option<RulesForm>,
}

struct SettingsForm {
    /// The app as it is shown.
    name: String,
    of: AppWithSettings,
    /// Field, label and value of the signals that can be sampled.
    sampled: Vec<(&'static str, &'static str, u32)>,
    /// Field, label and whether it is on, of the others.
    switched: Vec<(&'static str, &'static str, bool)>,
}

impl SettingsForm {
    fn of(of: AppWithSettings) -> SettingsForm {
        let signals = of.settings.signals;
        let (sampled, switched): (Vec<AppSignal>, Vec<AppSignal>) =
            AppSignal::ALL.into_iter().partition(|signal| signal.can_be_sampled());
        let field = |signal: AppSignal| (signal.as_str(), signal_word(signal), signals.one_in(signal));
        SettingsForm {
            name: shown(&of.app),
            sampled: sampled.into_iter().map(field).collect(),
            switched: switched
                .into_iter()
                .map(field)
                .map(|(name, label, one)| (name, label, one > 0))
                .collect(),
            of,
        }
    }
}

/// What a signal is called.
fn signal_word(signal: AppSignal) -> &'static str {
    match signal {
        AppSignal::Hangs => "Hangs, slow launches, much CPU and many writes",
        AppSignal::Javascript => "JavaScript errors",
        AppSignal::Memory => "Memory warnings and ends out of memory",
        AppSignal::Sessions => "Sessions",
        AppSignal::Metrics => "Metrics",
        AppSignal::Captures => "Captures",
    }
}

/// The tenant's rules of grouping.
#[derive(Default)]
struct RulesForm {
    text: String,
    /// Who changed them last, and when.
    changed: Option<(String, When)>,
    /// How far stored reports are grouped by them.
    progress: String,
    /// What a trial of `text` found.
    effect: Option<RulesEffect>,
}

struct RulesEffect {
    summary: String,
    /// A report that would move, its path, and the titles of its group before and after.
    examples: Vec<(String, String, String)>,
}

/// `GET /console/settings`.
pub async fn page(State(api): State<Api>, signed: SignedIn<TenantAdmin>) -> Result<Response, Problem> {
    let rules = rules(&api, &signed.access).await?;
    answer(&api, signed, rules).await
}

async fn answer(
    api: &Api,
    signed: SignedIn<TenantAdmin>,
    rules: Option<RulesForm>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let mut tx = api.tenant(access.tenant()).await?;
    let apps = app_settings::list(&mut tx, access.only_app(), None, MOST_SHOWN).await?;
    let known = apps::names(&mut tx, access.only_app(), MOST_OFFERED).await?;
    tx.rollback().await?;
    let has = |name: &String| apps.iter().any(|app| app.app == *name);
    let others = known.into_iter().filter(|name| !name.is_empty() && !has(name));
    let others: Vec<String> = others.collect();
    html(&SettingsPage {
        shell: Shell::of(signed.viewer, "settings", "Settings"),
        others,
        apps: apps.into_iter().map(SettingsForm::of).collect(),
        usual: SettingsForm::of(AppWithSettings { app: String::new(), settings: AppSettings::default() }),
        rules,
    })
}

async fn rules(api: &Api, access: &Access<TenantAdmin>) -> Result<Option<RulesForm>, Problem> {
    if access.only_app().is_some() {
        return Ok(None);
    }
    let Json(found) = get_grouping_rules(State(api.clone()), access.clone()).await?;
    let Some(rules) = found.rules else { return Ok(Some(RulesForm::default())) };
    let [looked, moved] = [rules.looked, rules.moved].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    Ok(Some(RulesForm {
        changed: Some((shown(&rules.changed_by), When::of(rules.changed_at, api.clock.now()))),
        progress: format!(
            "{}: {} looked at, {} moved",
            rules.status,
            counted(looked, "report", "reports"),
            grouped(moved)
        ),
        text: rules.text,
        effect: None,
    }))
}

/// `POST /console/settings/grouping-rules`: sets the rules.
pub async fn set_rules(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let new = NewGroupingRules { text: lines(&form) };
    let _ = set_grouping_rules(State(api), signed.access, input::Json(new)).await?;
    Ok(Redirect::to(PATH).into_response())
}

/// `POST /console/settings/grouping-rules/trial`: what the rules of the form would do.
pub async fn try_rules(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let text = lines(&form);
    let trial = GroupingRulesTrial { text: text.clone(), reports: None };
    let Json(effect) =
        try_grouping_rules(State(api.clone()), signed.access.clone(), input::Json(trial)).await?;
    let rules = rules(&api, &signed.access).await?.map(|rules| RulesForm {
        text,
        effect: Some(shown_effect(&effect)),
        ..rules
    });
    answer(&api, signed, rules).await
}

/// The rules of a form: browsers send lines that end in a carriage return and a line feed.
fn lines(form: &SentForm) -> String {
    form.text("text").replace("\r\n", "\n")
}

fn shown_effect(effect: &GroupingRulesEffect) -> RulesEffect {
    let [looked, moved, merged, split] = [effect.looked, effect.moved, effect.merged, effect.split]
        .map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let title = |title: &Option<String>| shown_or(title.as_deref().unwrap_or_default(), "no group");
    let examples = effect.examples.iter().map(|example| {
        let report = format!("/console/reports/{}", example.report);
        (report, title(&example.from_title), title(&example.to_title))
    });
    RulesEffect {
        summary: format!(
            "Of the newest {}, {} would move: {} would become one with others, {} would be split.",
            counted(looked, "report", "reports"),
            grouped(moved),
            counted(merged, "group", "groups"),
            grouped(split)
        ),
        examples: examples.collect(),
    }
}

/// `POST /console/settings`.
pub async fn save(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let one_in = |signal: AppSignal| Ok::<_, Problem>(form.number(signal.as_str())?.unwrap_or(1));
    let signals = SignalSettings {
        hangs: one_in(AppSignal::Hangs)?,
        javascript: one_in(AppSignal::Javascript)?,
        memory: one_in(AppSignal::Memory)?,
        sessions: one_in(AppSignal::Sessions)?,
        metrics: one_in(AppSignal::Metrics)?,
        captures: one_in(AppSignal::Captures)?,
    };
    let (source_url, source_root) = (form.text("source_url"), form.text("source_root"));
    let new = NewAppSettings { app: form.text("app"), source_url, source_root, signals: Some(signals) };
    let _ = set_app_settings(State(api), signed.access, input::Json(new)).await?;
    Ok(Redirect::to(PATH).into_response())
}
