//! Forms that the console's pages send.

use axum::extract::{FromRef, FromRequest, Request};
use http::HeaderMap;
use http::header::HOST;
use http::uri::Authority;
use serde::de::DeserializeOwned;
use std::str::FromStr;
use std::sync::Arc;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use unslide_api::feature::Api;
use unslide_api::feature::Capacity;
use unslide_api::feature::upload::Chunks;
use unslide_api::problem::{Kind, Problem};

/// Maximum size of a form in bytes: a comment of 4,000 bytes, each of them encoded, and more.
const FORM_BYTES: u64 = 32 << 10;

/// Maximum size of a form with a text of 64 KiB, each byte of it encoded.
const LONG_FORM_BYTES: u64 = 3 * (64 << 10) + (1 << 10);

/// Marks a route with such a form.
#[derive(Clone, Copy)]
pub struct LongForm;

/// The fields of a form that was sent.
pub struct SentForm(Vec<(String, String)>);

impl SentForm {
    /// Creates a form with these fields.
    pub fn from_fields(fields: Vec<(String, String)>) -> SentForm {
        SentForm(fields)
    }

    /// Returns a field's text without space around it, or `None` if it is empty or absent.
    pub fn get<'f>(&'f self, name: &'f str) -> Option<&'f str> {
        self.field_texts(name).next()
    }

    /// Returns the texts of all fields of a name that are not empty.
    pub fn field_texts<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let fields = self.0.iter().filter(move |(field, _)| field == name);
        fields.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns a field's text, or an empty text if it is absent.
    pub fn field_text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// Returns a field as one of the words in its JSON form.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`] if it is none of them.
    pub fn parse_word<T: DeserializeOwned>(&self, name: &str) -> Result<T, Problem> {
        let word = serde_json::Value::String(self.field_text(name));
        serde_json::from_value(word)
            .map_err(|error| Problem::new(Kind::InvalidBody, format!("{name}: {error}")))
    }

    /// Returns a field as a number, if there is one.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`] if it is not a number.
    pub fn parse_number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let wrong = |text| Problem::new(Kind::InvalidBody, format!("{name}: {text:?} is not a number"));
        self.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// Returns the time at which the day of a field begins in UTC, if there is one.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`] if it is not a day.
    pub fn parse_day(&self, name: &str) -> Result<Option<OffsetDateTime>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let day = Date::parse(text, format_description!("[year]-[month]-[day]"));
        let day =
            day.map_err(|_| Problem::new(Kind::InvalidBody, format!("{name}: a day such as 2027-03-31")))?;
        Ok(Some(day.midnight().assume_utc()))
    }

    /// Returns true if the field exists, even if it is empty.
    pub fn has_field(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field == name)
    }
}

impl FromRequest<Api> for SentForm {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<SentForm, Problem> {
        let capacity = <Arc<Capacity>>::from_ref(api);
        let (parts, body) = request.into_parts();
        let is_long = parts.extensions.get::<LongForm>().is_some();
        let limit = if is_long { LONG_FORM_BYTES } else { FORM_BYTES };
        let mut chunks = Chunks::new(&parts.headers, body, limit, capacity.limits.client_pace())?;
        let mut sent = Vec::new();
        while let Some(piece) = chunks.next().await? {
            sent.extend_from_slice(&piece);
        }
        Ok(SentForm(form_urlencoded::parse(&sent).into_owned().collect()))
    }
}

/// Checks that a request for a change was sent by the console's own page. Browsers say so in
/// `Sec-Fetch-Site`. A request without that header must name this host as its `Origin`.
pub fn is_own_form(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = headers.get("origin").and_then(|origin| origin.to_str().ok());
    let authority = origin.and_then(|origin| {
        origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))?.parse::<Authority>().ok()
    });
    authority.is_some() && authority == request_host(headers)
}

/// The error text for a browser that uses the console over plain HTTP from another machine.
pub const NEEDS_HTTPS: &str = "The console needs HTTPS here, or an SSH tunnel to localhost";

/// Returns the problem for a form that was not sent by the console's own page. Over plain HTTP, some browsers
/// do not say who sent it.
pub fn foreign_form(needs_https: bool) -> Problem {
    let detail = if needs_https { NEEDS_HTTPS } else { "the request was not sent by a page of the console" };
    Problem::new(Kind::InvalidRequest, detail)
}

/// Returns the host that a request names.
pub fn request_host(headers: &HeaderMap) -> Option<Authority> {
    Authority::try_from(headers.get(HOST)?.as_bytes()).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use http::HeaderValue;

    pub fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn a_form_of_another_site_is_none_of_ours() {
        for (own, sent) in [
            (true, headers(&[("sec-fetch-site", "same-origin"), ("origin", "null")])),
            (true, headers(&[("host", "a.example:8080"), ("origin", "https://a.example:8080")])),
            (false, headers(&[("sec-fetch-site", "same-site"), ("host", "a"), ("origin", "http://a")])),
            (false, headers(&[("sec-fetch-site", "none")])),
            (false, headers(&[("host", "a.example"), ("origin", "https://b.example")])),
            (false, headers(&[("host", "a.example"), ("origin", "https://a.example:444")])),
            (false, headers(&[("host", "a.example"), ("origin", "null")])),
            (false, headers(&[("host", "a.example")])),
        ] {
            assert_eq!(is_own_form(&sent), own, "{sent:?}");
        }
    }
}
