//! The form in which a client wants a list (RFC 9110 §12.5.1).

use http::HeaderMap;
use unslide_api::feature::lists::parse_weights;
use unslide_api::feature::operation::{Kind, Problem};

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A JSON object a line.
    Ndjson,
    /// RFC 4180, with a line of names.
    Csv,
    /// The body of Elasticsearch's bulk API: a line with the id before each JSON object.
    Elasticsearch,
}

impl ExportFormat {
    pub fn media_type(self) -> &'static str {
        match self {
            ExportFormat::Ndjson | ExportFormat::Elasticsearch => "application/x-ndjson",
            ExportFormat::Csv => "text/csv; charset=utf-8; header=present",
        }
    }

    /// Returns the end of a file's name.
    pub fn file_extension(self) -> &'static str {
        match self {
            ExportFormat::Ndjson => "ndjson",
            ExportFormat::Csv => "csv",
            ExportFormat::Elasticsearch => "bulk.ndjson",
        }
    }
}

/// Returns the form of the answer: by the parameter `format`, else by `Accept`. Returns None for a page of JSON, which is
/// the default. Only entries with ids can go to Elasticsearch.
///
/// # Errors
/// Returns [`Kind::InvalidParameter`] for an unknown `format`.
pub fn negotiate_format(
    format: Option<&str>,
    headers: &HeaderMap,
    has_ids: bool,
) -> Result<Option<ExportFormat>, Problem> {
    match format {
        None => {
            let kinds = [("application", "json"), ("application", "x-ndjson"), ("text", "csv")];
            let [json, ndjson, csv] = parse_weights(headers, kinds);
            Ok(match () {
                () if ndjson > json && ndjson >= csv => Some(ExportFormat::Ndjson),
                () if csv > json => Some(ExportFormat::Csv),
                () => None,
            })
        }
        Some("json") => Ok(None),
        Some("ndjson") => Ok(Some(ExportFormat::Ndjson)),
        Some("csv") => Ok(Some(ExportFormat::Csv)),
        Some("elasticsearch") if has_ids => Ok(Some(ExportFormat::Elasticsearch)),
        Some(_) => {
            let more = if has_ids { ", elasticsearch" } else { "" };
            Err(Problem::new(Kind::InvalidParameter, format!("format: one of json, ndjson, csv{more}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};

    #[test]
    fn a_page_of_json_is_the_default_and_the_parameter_goes_first() {
        let read = |format, accept: &'static str| {
            let headers = [(header::ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            negotiate_format(format, &headers, false).map_err(|problem| problem.kind())
        };
        assert_eq!(negotiate_format(None, &HeaderMap::new(), true).unwrap(), None);
        for (accept, wanted) in [
            ("*/*", None),
            ("application/json", None),
            ("application/*", None),
            ("image/png", None),
            ("text/html, application/xhtml+xml, */*;q=0.8", None),
            ("text/csv", Some(ExportFormat::Csv)),
            ("text/csv;q=0.5, application/json", None),
            ("application/x-ndjson, */*;q=0.1", Some(ExportFormat::Ndjson)),
            ("application/x-ndjson;q=0.5, text/csv", Some(ExportFormat::Csv)),
        ] {
            assert_eq!(read(None, accept), Ok(wanted), "{accept}");
        }
        assert_eq!(read(Some("json"), "text/csv"), Ok(None));
        assert_eq!(read(Some("csv"), "application/json"), Ok(Some(ExportFormat::Csv)));
        assert_eq!(read(Some("xml"), "*/*"), Err(Kind::InvalidParameter));
        assert_eq!(read(Some("elasticsearch"), "*/*"), Err(Kind::InvalidParameter));
        let with_ids = negotiate_format(Some("elasticsearch"), &HeaderMap::new(), true);
        assert_eq!(with_ids.unwrap(), Some(ExportFormat::Elasticsearch));
    }
}
