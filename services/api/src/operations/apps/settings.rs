//! `GET` and `PUT /v1/app-settings`.

use crate::operations::prelude::*;
use crate::requests::input;
use unslide_store::app_settings::{self, ALL_APPS, APPS_WITH_SETTINGS_LIMIT, AppSettings, AppWithSettings};
use unslide_store::app_signals::SignalSettings;
use unslide_store::audit;

/// Maximum length of a setting, in bytes.
const SETTING_BYTES: usize = 1_000;

problems!(ListFailures: InvalidParameter);

/// List the settings of apps
///
/// Lists each app's links to source code, and the signals that it keeps. Apps without settings are not listed.
#[utoipa::path(get, path = "/v1/app-settings", tag = "apps", operation_id = "list_app_settings",
    params(PageQuery),
    responses((status = 200, description = "A page of apps with their settings.", body = Page<AppWithSettings>), ListFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_app_settings(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AppWithSettings>>, Problem> {
    let list = List::for_operation(access.tenant(), "list_app_settings", &access.only_app());
    let after = page.read_cursor(list, |app| Some(app.to_owned()))?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = app_settings::list_settings(&mut tx, access.only_app(), after.as_deref(), limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| last.app.clone())))
}

/// An app with its new settings.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAppSettings {
    /// Bundle identifier of the app, or `*` for the signals of all apps without a choice of their own.
    #[schema(min_length = 1, max_length = 255, example = "com.example.shop")]
    pub app: String,
    /// URL of a source file: a template with `{path}`, and optionally `{line}`, `{version}` and `{build}`. No links if it
    /// is absent.
    #[serde(default)]
    #[schema(max_length = 1000, example = "https://git.example.com/shop/blob/v{version}/{path}#L{line}")]
    pub source_url: String,
    /// The folder that held the repository during the build; none if absent.
    #[serde(default)]
    #[schema(max_length = 1000, example = "/Users/runner/work/shop/shop")]
    pub source_root: String,
    /// Signals that are kept; no change if absent. A signal that it does not name is kept.
    pub signals: Option<SignalSettings>,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Replace an app's settings
///
/// `source_url` turns each source position in the console into a link. `signals` says which signals are
/// kept. Crashes are always kept. With the app `*`, `signals` are the default for all apps: an app follows it if its own
/// signals were equal to the default when they were set, or never set. Without `signals`, they do not change. Other fields that are left out get the values of an
/// app without settings.
#[utoipa::path(put, path = "/v1/app-settings", tag = "apps", operation_id = "set_app_settings",
    request_body = NewAppSettings,
    responses((status = 200, description = "The settings after the change.", body = AppWithSettings), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_app_settings(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    input::Json(new): input::Json<NewAppSettings>,
) -> Result<Json<AppWithSettings>, Problem> {
    let NewAppSettings { app, source_url, source_root, signals } = new;
    let settings = AppSettings { source_url, source_root, signals: signals.unwrap_or_default() };
    let mut new = AppWithSettings { app, settings };
    access.restrict_app(Some(new.app.clone()))?;
    check_settings(&new).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if signals.is_none() {
        new.settings.signals = app_settings::get(&mut tx, &new.app).await?.signals;
    }
    // The settings of all apps are their signals.
    let changes = new.app != ALL_APPS || signals.is_some();
    if changes && !app_settings::replace_settings(&mut tx, &new.app, &new.settings).await? {
        let detail = format!(
            "at most {APPS_WITH_SETTINGS_LIMIT} apps of a tenant have settings; empty those of another one"
        );
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "app_settings.change", &new.app, &serde_json::json!(new.settings))
        .await?;
    tx.commit().await?;
    Ok(Json(new))
}

fn check_settings(new: &AppWithSettings) -> Result<(), String> {
    if !input::is_text(&new.app, 255) {
        return Err("app: 1 to 255 bytes, no control characters".to_owned());
    }
    let AppSettings { source_url, source_root, .. } = &new.settings;
    for (name, text) in [("source_url", source_url), ("source_root", source_root)] {
        if text.len() > SETTING_BYTES || text.chars().any(char::is_control) {
            return Err(format!("{name}: at most {SETTING_BYTES} bytes, no control characters"));
        }
    }
    if new.app == ALL_APPS && !(source_url.is_empty() && source_root.is_empty()) {
        return Err("source_url and source_root: name one app, as * has signals only".to_owned());
    }
    let is_web = source_url.starts_with("https://") || source_url.starts_with("http://");
    let is_link = is_web && source_url.contains("{path}") && !source_url.contains(char::is_whitespace);
    if !source_url.is_empty() && !is_link {
        return Err("source_url: an http or https URL with {path} in it, without spaces".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_url_is_a_web_address_with_a_path() {
        let checked = |url: &str| {
            let settings = AppSettings { source_url: url.to_owned(), ..AppSettings::default() };
            check_settings(&AppWithSettings { app: "shop".to_owned(), settings })
        };
        assert_eq!(checked(""), Ok(()));
        assert_eq!(checked("https://git.example.com/shop/{path}#L{line}"), Ok(()));
        let all = AppSettings { source_root: "/ci".to_owned(), ..AppSettings::default() };
        assert!(check_settings(&AppWithSettings { app: ALL_APPS.to_owned(), settings: all }).is_err());
        for wrong in ["https://git.example.com/", "javascript:alert({path})", "https://a b/{path}", "{path}"]
        {
            assert!(checked(wrong).is_err(), "{wrong}");
        }
    }
}
