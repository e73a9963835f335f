//! Which representation of a report the client wants (RFC 9110 §12.5.1).

use crate::problem::{Kind, Problem};
use http::{HeaderMap, header};
use unslide_report::markdown::MarkdownStyle;

/// A representation of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Json,
    Text,
    Markdown,
}

impl Representation {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Representation::Json => "json",
            Representation::Text => "text",
            Representation::Markdown => "markdown",
        }
    }

    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Representation::Json => "application/json",
            Representation::Text => "text/plain; charset=utf-8",
            Representation::Markdown => "text/markdown; charset=utf-8",
        }
    }

    /// Returns the `Content-Type` of an answer. A document of another format than KSCrash's JSON may be no JSON text.
    #[must_use]
    pub fn answer_type(self, is_json: bool) -> &'static str {
        match self {
            Representation::Json if !is_json => "application/octet-stream",
            Representation::Json | Representation::Text | Representation::Markdown => self.media_type(),
        }
    }
}

/// Returns the style of Markdown that the parameter `evidence` names.
#[must_use]
pub fn choose_style(evidence: Option<bool>) -> MarkdownStyle {
    if evidence == Some(true) { MarkdownStyle::Cited } else { MarkdownStyle::Plain }
}

/// Returns the representation that the client prefers, JSON if it has no preference.
///
/// # Errors
/// [`Kind::NotAcceptable`] if it accepts none.
pub fn negotiate_representation(headers: &HeaderMap) -> Result<Representation, Problem> {
    let kinds = [("application", "json"), ("text", "plain"), ("text", "markdown")];
    let [json, text, markdown] = parse_weights(headers, kinds);
    if json <= 0.0 && text <= 0.0 && markdown <= 0.0 {
        let detail = "there are application/json, text/plain and text/markdown";
        return Err(Problem::new(Kind::NotAcceptable, detail));
    }
    if markdown > json && markdown > text {
        return Ok(Representation::Markdown);
    }
    Ok(if text > json { Representation::Text } else { Representation::Json })
}

/// Returns the representation that the parameter `format` names, or else the one that the client prefers.
///
/// # Errors
/// [`Kind::InvalidParameter`] for another word, and those of [`negotiate_representation`].
pub fn choose_representation(format: Option<&str>, headers: &HeaderMap) -> Result<Representation, Problem> {
    match format {
        None => negotiate_representation(headers),
        Some("json") => Ok(Representation::Json),
        Some("text") => Ok(Representation::Text),
        Some("markdown") => Ok(Representation::Markdown),
        Some(_) => Err(Problem::new(Kind::InvalidParameter, "format: json, text or markdown")),
    }
}

/// Returns the client's weights for these media types, 0 to 1. All are 1 if the request has no `Accept`
/// header.
pub fn parse_weights<const N: usize>(headers: &HeaderMap, kinds: [(&str, &str); N]) -> [f32; N] {
    let values: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    if values.is_empty() {
        return [1.0; N];
    }
    let ranges: Vec<(String, f32)> =
        values.iter().flat_map(|value| value.split(',')).map(parse_range).collect();
    kinds.map(|(main, sub)| find_weight(&ranges, main, sub))
}

/// Reads a media range without its parameters, and its weight.
fn parse_range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    (range, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

/// Returns the weight of the most specific range that matches, or 0 if none does.
fn find_weight(ranges: &[(String, f32)], main: &str, sub: &str) -> f32 {
    let wanted = [format!("{main}/{sub}"), format!("{main}/*"), "*/*".to_owned()];
    let found = wanted.iter().find_map(|wanted| ranges.iter().find(|(range, _)| range == wanted));
    found.map_or(0.0, |(_, weight)| *weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_range_wins_and_json_is_the_default() {
        let read = |accept: &'static str| {
            let headers = [(header::ACCEPT, http::HeaderValue::from_static(accept))].into_iter().collect();
            negotiate_representation(&headers).map_err(|p| p.kind())
        };
        assert_eq!(negotiate_representation(&HeaderMap::new()).unwrap(), Representation::Json);
        for (accept, wanted) in [
            ("*/*", Representation::Json),
            ("text/plain", Representation::Text),
            ("Text/Plain; charset=utf-8", Representation::Text),
            ("text/*", Representation::Text),
            ("text/plain;q=0.5, application/json", Representation::Json),
            ("text/plain, */*;q=0.1", Representation::Text),
            ("application/json;q=0, */*", Representation::Text),
            ("text/markdown", Representation::Markdown),
            ("text/markdown, text/plain;q=0.5", Representation::Markdown),
            ("text/markdown;q=0.5, */*", Representation::Json),
        ] {
            assert_eq!(read(accept), Ok(wanted), "{accept}");
        }
        assert_eq!(read("image/png"), Err(Kind::NotAcceptable));
        assert_eq!(read("application/json;q=0"), Err(Kind::NotAcceptable));
    }

    #[test]
    fn a_format_in_the_query_is_preferred_to_the_header() {
        let headers = [(header::ACCEPT, http::HeaderValue::from_static("text/plain"))].into_iter().collect();
        let choose = |format| choose_representation(format, &headers).map_err(|p| p.kind());
        assert_eq!(choose(None), Ok(Representation::Text));
        assert_eq!(choose(Some("markdown")), Ok(Representation::Markdown));
        assert_eq!(choose(Some("md")), Err(Kind::InvalidParameter));
    }
}
