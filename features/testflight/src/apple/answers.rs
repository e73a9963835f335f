//! Answers of Apple's API (JSON:API). Any attribute may be absent.

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The most characters of a tester's words that are kept.
const MAX_COMMENT_CHARS: usize = 4_000;
/// The most bytes of an id.
const MAX_ID_BYTES: usize = 200;
/// The most characters of an error that are shown.
const MAX_ERROR_CHARS: usize = 300;

/// A crash that a tester has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashSubmission {
    pub id: String,
    pub submitted_at: Option<OffsetDateTime>,
    /// The tester's words, if there are any.
    pub comment: Option<String>,
}

/// A page of the list of submissions.
#[derive(Clone, Debug, Default)]
pub struct SubmissionPage {
    pub submissions: Vec<CrashSubmission>,
    /// The URL of the next page.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct Document<T> {
    data: Option<T>,
    links: Option<Links>,
}

#[derive(Deserialize)]
struct Links {
    next: Option<String>,
}

#[derive(Deserialize)]
struct Resource<A> {
    #[serde(default)]
    id: String,
    attributes: Option<A>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubmissionAttributes {
    created_date: Option<String>,
    comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppAttributes {
    bundle_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogAttributes {
    log_text: Option<String>,
}

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<AppleProblem>,
}

#[derive(Deserialize)]
struct AppleProblem {
    #[serde(default)]
    code: String,
    detail: Option<String>,
    title: Option<String>,
}

/// Reads a page of submissions. Those with an id that no path can hold are left out.
///
/// # Errors
/// Returns an error if it is no such page.
pub fn read_submissions(body: &[u8]) -> serde_json::Result<SubmissionPage> {
    let document: Document<Vec<Resource<SubmissionAttributes>>> = serde_json::from_slice(body)?;
    let submissions = document.data.unwrap_or_default().into_iter().filter(|one| is_id(&one.id));
    let submissions = submissions.map(|one| {
        let (created_date, comment) = one
            .attributes
            .map(|attributes| (attributes.created_date, attributes.comment))
            .unwrap_or_default();
        let submitted_at = created_date.and_then(|text| OffsetDateTime::parse(&text, &Rfc3339).ok());
        CrashSubmission { id: one.id, submitted_at, comment: comment.and_then(|text| clean_comment(&text)) }
    });
    let next = document.links.and_then(|links| links.next);
    Ok(SubmissionPage { submissions: submissions.collect(), next })
}

/// Reads a list of apps: the bundle identifier and Apple's id of each.
///
/// # Errors
/// Returns an error if it is no such list.
pub fn read_apps(body: &[u8]) -> serde_json::Result<Vec<(String, String)>> {
    let document: Document<Vec<Resource<AppAttributes>>> = serde_json::from_slice(body)?;
    let apps = document.data.unwrap_or_default().into_iter().filter(|one| is_id(&one.id));
    Ok(apps.filter_map(|one| Some((one.attributes?.bundle_id?, one.id))).collect())
}

/// Reads a crash log. Returns None if there is none yet.
///
/// # Errors
/// Returns an error if it is no answer with a log.
pub fn read_log(body: &[u8]) -> serde_json::Result<Option<String>> {
    let document: Document<Resource<LogAttributes>> = serde_json::from_slice(body)?;
    let text = document.data.and_then(|one| one.attributes?.log_text);
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// Returns the words of an error for people, with its code. Some errors are no JSON.
pub fn describe_error(body: &[u8]) -> String {
    let errors = serde_json::from_slice::<Errors>(body).map(|document| document.errors).unwrap_or_default();
    let Some(first) = errors.into_iter().next() else { return "no reason given".to_owned() };
    let words = first.detail.or(first.title).unwrap_or_default();
    let code: String = first.code.chars().filter(char::is_ascii_graphic).take(100).collect();
    let words: String =
        words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_ERROR_CHARS).collect();
    format!("{words} ({code})").trim_start().to_owned()
}

/// Returns true for an id that is a segment of a path as it stands.
fn is_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Returns a tester's words without control characters, or None if there are none.
fn clean_comment(text: &str) -> Option<String> {
    let kept = text.chars().filter(|c| !c.is_control() || *c == '\n').take(MAX_COMMENT_CHARS);
    let kept = kept.collect::<String>().trim().to_owned();
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_with_whatever_attributes_it_has() {
        let page = br#"{"data": [
            {"type": "betaFeedbackCrashSubmissions", "id": "AAbb-12_", "attributes": {"createdDate": "2026-11-20T09:15:42.318-08:00",
             "comment": " It crashed.\r\nTwice. ", "email": "robin@example.com", "unknown": [1]}},
            {"id": "empty", "attributes": {"comment": " \n", "createdDate": "yesterday"}}, {"id": "bare"},
            {"id": "../v1/users"}, {"id": ""}], "links": {"self": "x", "next": "https://n"}, "meta": {"paging": {"total": 5}}}"#;
        let SubmissionPage { submissions, next } = read_submissions(page).unwrap();
        assert_eq!(next.as_deref(), Some("https://n"));
        assert_eq!(
            submissions.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
            ["AAbb-12_", "empty", "bare"]
        );
        assert_eq!(submissions[0].comment.as_deref(), Some("It crashed.\nTwice."));
        assert_eq!(submissions[0].submitted_at.unwrap().unix_timestamp(), 1_795_194_942);
        assert_eq!((&submissions[1].comment, submissions[1].submitted_at), (&None, None));
        assert!(
            read_submissions(b"<html>").is_err() && read_submissions(b"{}").unwrap().submissions.is_empty()
        );
    }

    #[test]
    fn a_log_that_is_not_there_yet_is_none() {
        for empty in [
            r#"{"data": null}"#,
            r#"{"data": {"id": "a"}}"#,
            r#"{"data": {"id": "a", "attributes": {"logText": " \n"}}}"#,
        ] {
            assert_eq!(read_log(empty.as_bytes()).unwrap(), None, "{empty}");
        }
        let log = br#"{"data": {"id": "a+/=", "attributes": {"logText": "Incident Identifier: 1"}}}"#;
        assert_eq!(read_log(log).unwrap().as_deref(), Some("Incident Identifier: 1"));
    }

    #[test]
    fn an_error_is_told_in_one_line_also_if_it_is_no_json() {
        let error = br#"{"errors": [{"status": "403", "code": "FORBIDDEN_ERROR", "title": "t", "detail": "The role\nis too low"}]}"#;
        assert_eq!(describe_error(error), "The role is too low (FORBIDDEN_ERROR)");
        assert_eq!(describe_error(b"Not Acceptable"), "no reason given");
    }

    #[test]
    fn apps_are_read_by_their_bundle_identifier() {
        let apps =
            br#"{"data": [{"id": "123", "attributes": {"bundleId": "com.acme.shop"}}, {"id": "124"}]}"#;
        assert_eq!(read_apps(apps).unwrap(), [("com.acme.shop".to_owned(), "123".to_owned())]);
    }
}
