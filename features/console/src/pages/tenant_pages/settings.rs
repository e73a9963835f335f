//! `/console/settings`: the tenant's settings: links to its apps' source code, the signals that they keep,
//! and its grouping rules.

use crate::prelude::*;
use unslide_api::feature::operation::{JsonBody, TenantAdmin};
use unslide_api::feature::site::{
    GroupingRulesEffect, GroupingRulesTrial, NewAppSettings, NewGroupingRules, PersonSearchSetting,
    get_grouping_rules, set_app_settings, set_grouping_rules, set_person_search, try_grouping_rules,
};
use unslide_model::AppSignal;
use unslide_report::text::is_obeyed;
use unslide_site::SentForm;
use unslide_store::app_settings::{self, ALL_APPS, AppWithSettings};
use unslide_store::app_signals::SignalSettings;
use unslide_store::groups::rules::TenantGroupingRules;
use unslide_store::queries::{apps, person};
use unslide_symbolicate::grouping::GroupingRules;

const SETTINGS_PAGE: &str = "/console/settings";
/// Maximum number of apps with settings on the page.
const MOST_SHOWN: u32 = 200;
/// Maximum number of apps without settings that the page offers.
const MOST_OFFERED: u32 = 50;

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/settings.html", askama = escaping)]
struct SettingsPage {
    shell: Shell,
    apps: Vec<AppWithSettings>,
    others: Vec<String>,
    /// Defaults for an app without settings.
    usual: SignalSettings,
    /// True if the key may change the default of all apps.
    has_default: bool,
    /// Absent for a key of one app, because rules apply to all apps.
    rules: Option<RulesForm>,
    /// Whether ids of persons are searched. Absent for a key of one app.
    person_search: Option<bool>,
}

/// Returns the display name of a signal.
fn signal_word(signal: AppSignal) -> &'static str {
    match signal {
        AppSignal::Hangs => "hangs, slow launches, CPU use and disk writes",
        AppSignal::Javascript => "JavaScript errors",
        AppSignal::Errors => "errors that the app reports",
        AppSignal::Memory => "memory warnings and ends out of memory",
        AppSignal::Sessions => "sessions",
        AppSignal::Metrics => "metrics",
        AppSignal::Captures => "captures",
    }
}

#[derive(Default)]
struct RulesForm {
    text: String,
    /// The current rules; absent if the tenant never had any.
    set: Option<TenantGroupingRules>,
    /// The first line of `text` is the suggestion of a group's page.
    suggested: bool,
    /// The result of a trial of `text`.
    effect: Option<GroupingRulesEffect>,
}

impl RulesForm {
    /// Adds a rule that is not set yet. Ignores a text that is not a rule of one line.
    fn with_suggestion(mut self, rule: &str) -> RulesForm {
        let known = self.text.lines().any(|line| line.trim() == rule);
        if !known && !rule.contains(is_obeyed) && GroupingRules::parse(rule).is_ok() {
            // The first rule that matches a function decides: after another match, the new rule would have no
            // effect.
            self.text = format!("{rule}\n{}", self.text).trim_end().to_owned();
            self.suggested = true;
        }
        self
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let rules = load_rules(&storage, &signed.access).await?;
    let rules = rules.map(|rules| match state.get("rule") {
        Some(rule) => rules.with_suggestion(rule),
        None => rules,
    });
    render_settings(&storage, signed, rules).await
}

async fn render_settings(
    storage: &Storage,
    signed: SignedIn<TenantAdmin>,
    rules: Option<RulesForm>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut apps = app_settings::list_settings(&mut tx, access.only_app(), None, MOST_SHOWN).await?;
    apps.retain(|app| app.app != ALL_APPS);
    let usual = app_settings::get(&mut tx, ALL_APPS).await?.signals;
    let known = apps::list_app_names(&mut tx, access.only_app(), MOST_OFFERED).await?;
    let is_on = person::is_person_search_on(&mut tx).await?;
    let person_search = access.only_app().is_none().then_some(is_on);
    tx.rollback();
    let has = |name: &String| apps.iter().any(|app| app.app == *name);
    let others = known.into_iter().filter(|name| !name.is_empty() && !has(name));
    let others: Vec<String> = others.collect();
    render_html(&SettingsPage {
        shell: Shell::for_viewer(signed.viewer, "settings", "Settings"),
        others,
        apps,
        usual,
        has_default: access.only_app().is_none(),
        rules,
        person_search,
    })
}

async fn load_rules(
    storage: &Arc<Storage>,
    access: &Access<TenantAdmin>,
) -> Result<Option<RulesForm>, Problem> {
    if access.only_app().is_some() {
        return Ok(None);
    }
    let Json(found) = get_grouping_rules(State(storage.clone()), access.clone()).await?;
    let text = found.rules.as_ref().map(|rules| rules.text.clone()).unwrap_or_default();
    Ok(Some(RulesForm { text, set: found.rules, ..RulesForm::default() }))
}

/// `POST /console/settings/person-search`: turns the search by ids of persons on or off.
pub async fn switch_person_search(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let new = PersonSearchSetting { enabled: form.has_field("enabled") };
    let _ = set_person_search(State(storage), signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(&format!("{SETTINGS_PAGE}#person-search")).into_response())
}

/// `POST /console/settings/grouping-rules`: sets the rules.
pub async fn set_rules(
    State(keys): State<Arc<Keys>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let new = NewGroupingRules { text: normalize_lines(&form) };
    let _ = set_grouping_rules(State(keys), signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(SETTINGS_PAGE).into_response())
}

/// `POST /console/settings/grouping-rules/trial`: shows the effect of the rules in the form.
pub async fn try_rules(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let text = normalize_lines(&form);
    let trial = GroupingRulesTrial { text: text.clone(), reports: None };
    let Json(effect) =
        try_grouping_rules(State(symbolication.clone()), signed.access.clone(), JsonBody(trial)).await?;
    let rules = load_rules(&symbolication.storage, &signed.access).await?.map(|rules| RulesForm {
        text,
        effect: Some(effect),
        ..rules
    });
    render_settings(&symbolication.storage, signed, rules).await
}

/// Returns the rules of a form: browsers send lines that end in a carriage return and a line feed.
fn normalize_lines(form: &SentForm) -> String {
    form.field_text("text").replace("\r\n", "\n")
}

pub async fn save_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let keeps = |signal: AppSignal| form.has_field(signal.as_str());
    let signals = SignalSettings {
        hangs: keeps(AppSignal::Hangs),
        javascript: keeps(AppSignal::Javascript),
        errors: keeps(AppSignal::Errors),
        memory: keeps(AppSignal::Memory),
        sessions: keeps(AppSignal::Sessions),
        metrics: keeps(AppSignal::Metrics),
        captures: keeps(AppSignal::Captures),
    };
    let (source_url, source_root) = (form.field_text("source_url"), form.field_text("source_root"));
    let new = NewAppSettings { app: form.field_text("app"), source_url, source_root, signals: Some(signals) };
    let _ = set_app_settings(State(storage), signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(SETTINGS_PAGE).into_response())
}
