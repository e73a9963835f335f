//! One match of a search.

use crate::operations::prelude::*;
use form_urlencoded::{Serializer, byte_serialize};
use std::borrow::Cow;
use time::OffsetDateTime;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::names::VersionName;
use unslide_store::queries::person::{FoundSession, PersonReport};
use unslide_store::queries::reports::ReportRow;

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchMatch {
    /// `report`, `group`, `image`, `upload`, `session`, `app`, `version`, or the word of a feature for its entries.
    #[schema(value_type = String, example = "group")]
    pub kind: Cow<'static, str>,
    /// Id of the entry; of an app or a version its name.
    pub id: String,
    /// Title of the entry, in one line.
    pub title: String,
    /// The app that it belongs to; absent if it belongs to none, or that is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = Option<String>, example = "com.example.shop")]
    pub app: String,
    /// The version of the app; absent if it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = Option<String>)]
    pub version: String,
    /// When the report arrived, the group was seen last, or the session began.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub at: Option<OffsetDateTime>,
    /// The field with the text: `id`, `text`, `name`, `device`, `session`, `installation` or `user`.
    #[schema(value_type = String, example = "text")]
    pub found_by: Cow<'static, str>,
    /// Path of its page in the console.
    #[schema(example = "/console/groups/5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10")]
    pub page: String,
}

impl SearchMatch {
    /// Makes the match of an entry that has an id and nothing else to show.
    pub fn by_id(kind: &'static str, id: String, page: String) -> SearchMatch {
        SearchMatch {
            kind: kind.into(),
            title: id.clone(),
            id,
            app: String::new(),
            version: String::new(),
            at: None,
            found_by: "id".into(),
            page,
        }
    }

    pub fn from_report(report: &ReportRow, found_by: &'static str) -> SearchMatch {
        let named = |key: &str| report.summary.get(key).and_then(|value| value.as_str());
        let title = report.reason.as_deref().or_else(|| named("exception")).or_else(|| named("signal"));
        let id = report.report_id.to_string();
        let variant = (report.variant > 0).then(|| report.variant.to_string());
        SearchMatch {
            title: title.unwrap_or(&report.kind).to_owned(),
            app: report.app.clone(),
            version: report.version.clone(),
            at: Some(report.received_at),
            found_by: found_by.into(),
            page: page_path(&format!("/console/reports/{id}"), &[("variant", variant.as_deref())]),
            ..SearchMatch::by_id("report", id, String::new())
        }
    }

    pub fn from_group(group: &ListedGroup, found_by: &'static str) -> SearchMatch {
        SearchMatch {
            title: group.title.clone(),
            app: group.app.clone(),
            version: group.last_version.clone(),
            at: Some(group.last_seen),
            found_by: found_by.into(),
            ..SearchMatch::by_id("group", group.id.to_string(), format!("/console/groups/{}", group.id))
        }
    }

    pub fn from_app(app: String) -> SearchMatch {
        let page = page_path("/console", &[("app", Some(&app))]);
        SearchMatch { found_by: "name".into(), app: app.clone(), ..SearchMatch::by_id("app", app, page) }
    }

    pub fn from_version(name: VersionName) -> SearchMatch {
        let VersionName { app, version } = name;
        let page = page_path("/console", &[("app", Some(&app)), ("version", Some(&version))]);
        SearchMatch {
            found_by: "name".into(),
            version: version.clone(),
            app,
            ..SearchMatch::by_id("version", version, page)
        }
    }

    pub fn from_session(session: FoundSession) -> SearchMatch {
        let FoundSession { app, session, version, started_at, end_reason, found_by } = session;
        let title = match end_reason {
            Some(reason) => format!("Session that ended: {}", reason.replace('_', " ")),
            None => "Session".to_owned(),
        };
        let segment = byte_serialize(session.as_bytes()).collect::<String>().replace('+', "%20");
        let page = page_path(&format!("/console/sessions/{segment}"), &[("app", Some(&app))]);
        SearchMatch {
            title,
            app,
            version,
            at: Some(started_at),
            found_by: found_by.as_str().into(),
            ..SearchMatch::by_id("session", session, page)
        }
    }
}

impl From<PersonReport> for SearchMatch {
    fn from(found: PersonReport) -> SearchMatch {
        SearchMatch::from_report(&found.report, found.found_by.as_str())
    }
}

/// Writes the path of a page with the parameters that have a value.
pub fn page_path(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;
    use unslide_store::queries::person::PersonIdKind;

    #[test]
    fn a_match_leads_to_its_page_whatever_its_name_is() {
        let app = SearchMatch::from_app("com.example.a&b".to_owned());
        assert_eq!((app.kind.as_ref(), app.page.as_str()), ("app", "/console?app=com.example.a%26b"));
        let version = VersionName { app: "shop".to_owned(), version: "2.4 (b)".to_owned() };
        assert_eq!(SearchMatch::from_version(version).page, "/console?app=shop&version=2.4+%28b%29");
        let session = FoundSession {
            app: "shop".to_owned(),
            session: "a b/c".to_owned(),
            version: "1.0".to_owned(),
            started_at: datetime!(2026-11-20 08:00 UTC),
            end_reason: Some("out_of_memory".to_owned()),
            found_by: PersonIdKind::User,
        };
        let session = SearchMatch::from_session(session);
        assert_eq!(session.page, "/console/sessions/a%20b%2Fc?app=shop");
        assert_eq!(session.title, "Session that ended: out of memory");
        assert_eq!(session.found_by, "user");
    }
}
