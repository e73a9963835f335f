//! A page of a list as lines.

use super::{ExportFormat, ExportRequest};
use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::error::Error;
use unslide_api::feature::lists::ListTable;
use unslide_report::text::is_obeyed;

/// A page as a list answers it. The days of an app's health and the endpoints of its requests are lists without pages.
#[derive(Deserialize)]
struct ListPage<'p> {
    #[serde(borrow, alias = "days", alias = "endpoints")]
    items: Vec<&'p RawValue>,
    next_cursor: Option<String>,
    history_unavailable: Option<String>,
}

/// The rows of a page.
pub struct PageRows {
    pub bytes: Bytes,
    pub entries: u64,
    pub next_cursor: Option<String>,
    /// Set if the list ends too early: older entries are in a database that does not answer.
    pub history_unavailable: Option<String>,
}

/// Writes the entries of a page, at most `left`. CSV of the first page begins with the columns' names.
///
/// # Errors
/// Returns an error if the page is no list.
pub fn write_rows(
    request: ExportRequest,
    page: &[u8],
    is_first: bool,
    left: Option<u64>,
) -> Result<PageRows, Box<dyn Error + Send + Sync>> {
    let mut page: ListPage<'_> = serde_json::from_slice(page)?;
    page.items.truncate(left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX)));
    let bytes = match request.format {
        ExportFormat::Ndjson => {
            page.items.iter().flat_map(|item| [item.get(), "\n"]).collect::<String>().into()
        }
        ExportFormat::Elasticsearch => write_bulk(&page.items)?.into(),
        ExportFormat::Csv => write_csv(request.table, &page.items, is_first)?,
    };
    let ListPage { items, next_cursor, history_unavailable } = page;
    Ok(PageRows { bytes, entries: items.len() as u64, next_cursor, history_unavailable })
}

/// The members that identify an entry.
#[derive(Deserialize)]
struct EntryId<'i> {
    #[serde(borrow)]
    id: Cow<'i, str>,
    #[serde(default)]
    variant: u32,
}

/// Writes each entry as a document with its id, so that another import replaces it:
/// <https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk>.
fn write_bulk(items: &[&RawValue]) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut lines = String::new();
    for item in items {
        let entry: EntryId<'_> = serde_json::from_str(item.get())?;
        let id = match entry.variant {
            0 => entry.id.into_owned(),
            variant => format!("{}-{variant}", entry.id),
        };
        lines.extend([&json!({"index": {"_id": id}}).to_string(), "\n", item.get(), "\n"]);
    }
    Ok(lines)
}

fn write_csv(
    table: &ListTable,
    items: &[&RawValue],
    with_names: bool,
) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let mut lines = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    if with_names {
        lines.write_record(table.parse_columns().map(|(name, _)| name))?;
    }
    let places: Vec<Cow<'_, str>> = table.parse_columns().map(|(_, place)| place).collect();
    for item in items {
        let item: Value = serde_json::from_str(item.get())?;
        lines.write_record(places.iter().map(|place| write_cell(find_value(&item, place))))?;
    }
    Ok(lines.into_inner()?.into())
}

/// Returns the value at a place (RFC 6901). A token that is no number selects the entry of an array that has it as a text:
/// `/phases/request_total/p50` is the `p50` of the phase with that name.
fn find_value<'i>(item: &'i Value, place: &str) -> Option<&'i Value> {
    let mut tokens = place.strip_prefix('/')?.split('/');
    tokens.try_fold(item, |value, token| match value {
        Value::Array(entries) if token.parse::<usize>().is_err() => {
            let has_text = |entry: &Value| {
                entry.as_object().is_some_and(|members| members.values().any(|value| value == token))
            };
            entries.iter().find(|entry| has_text(entry))
        }
        value => value.pointer(&format!("/{token}")),
    })
}

/// Writes a value as a cell: a list's entries with spaces between, an object as JSON, nothing if it is absent.
fn write_cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => without_formula(text).into_owned(),
        Some(Value::Array(values)) => {
            let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            without_formula(&texts.join(" ")).into_owned()
        }
        Some(value @ Value::Object(_)) => without_formula(&value.to_string()).into_owned(),
        Some(value) => value.to_string(),
    }
}

/// Returns a text that a spreadsheet does not take for a formula: see
/// <https://owasp.org/www-community/attacks/CSV_Injection>. A blank replaces each control character. A quote goes in front
/// if the first character that a person can see begins a formula.
fn without_formula(text: &str) -> Cow<'_, str> {
    let text = match text.contains(is_obeyed) {
        true => Cow::Owned(text.chars().map(|c| if is_obeyed(c) { ' ' } else { c }).collect()),
        false => Cow::Borrowed(text),
    };
    let is_unseen = |c: char| c.is_whitespace() || is_invisible(c);
    let begins = text.trim_start_matches(is_unseen);
    match begins.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        true => Cow::Owned(format!("'{text}")),
        false => text,
    }
}

/// Returns true for the characters without a shape that `Default_Ignorable_Code_Point` of Unicode's
/// `DerivedCoreProperties.txt` lists, as far as [`is_obeyed`] does not have them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: ListTable =
        ListTable { path: "/", name: "list", has_pages: true, columns: "id top=/frames/0/name of" };

    fn written(
        format: ExportFormat,
        page: &str,
        is_first: bool,
        left: Option<u64>,
    ) -> (String, Option<String>) {
        let request = ExportRequest { format, table: &TABLE, limit: None };
        let rows = write_rows(request, page.as_bytes(), is_first, left).unwrap();
        (String::from_utf8(rows.bytes.to_vec()).unwrap(), rows.next_cursor)
    }

    #[test]
    fn a_page_becomes_lines() {
        let page = r#"{"items":[{"id":1,"z":0,"a":0},{"id":2}],"next_cursor":"c"}"#;
        let ndjson = written(ExportFormat::Ndjson, page, true, None);
        assert_eq!(ndjson, ("{\"id\":1,\"z\":0,\"a\":0}\n{\"id\":2}\n".to_owned(), Some("c".to_owned())));
        assert_eq!(written(ExportFormat::Ndjson, page, true, Some(1)).0.lines().count(), 1);
        assert_eq!(written(ExportFormat::Csv, page, false, None).0, "1,,\r\n2,,\r\n");
        assert_eq!(
            written(ExportFormat::Csv, r#"{"items":[]}"#, true, None),
            ("id,top,of\r\n".to_owned(), None)
        );
        assert_eq!(written(ExportFormat::Csv, r#"{"app":"a","days":[{"id":3}]}"#, false, None).0, "3,,\r\n");
    }

    #[test]
    fn a_bulk_request_names_each_document() {
        let page = r#"{"items":[{"id":"a","n":1},{"n":2,"variant":3,"id":"b\n"}]}"#;
        let expected = concat!(
            "{\"index\":{\"_id\":\"a\"}}\n{\"id\":\"a\",\"n\":1}\n",
            "{\"index\":{\"_id\":\"b\\n-3\"}}\n{\"n\":2,\"variant\":3,\"id\":\"b\\n\"}\n",
        );
        assert_eq!(written(ExportFormat::Elasticsearch, page, true, None).0, expected);
        let request = ExportRequest { format: ExportFormat::Elasticsearch, table: &TABLE, limit: None };
        assert!(
            write_rows(request, br#"{"items":[{"n":1}]}"#, true, None).is_err(),
            "an entry without an id"
        );
    }

    #[test]
    fn a_place_selects_an_entry_by_its_text() {
        let item =
            serde_json::json!({"phases": [{"phase": "dns", "p50": 12}, {"phase": "total", "p50": 140}, 3]});
        for (place, expected) in [
            ("/phases/total/p50", Some(140)),
            ("/phases/dns/p50", Some(12)),
            ("/phases/2", Some(3)),
            ("/phases/tls/p50", None),
            ("/phases/total/p95", None),
        ] {
            assert_eq!(find_value(&item, place).and_then(Value::as_i64), expected, "{place}");
        }
        let page = r#"{"hosts":[{"id":9}],"endpoints":[{"id":1}]}"#;
        assert_eq!(written(ExportFormat::Csv, page, false, None).0, "1,,\r\n");
    }

    #[test]
    fn an_object_is_json_in_a_cell() {
        let page = r#"{"items":[{"id":1,"of":{"a":"x\u0085"}}]}"#;
        assert_eq!(written(ExportFormat::Csv, page, false, None).0, "1,,\"{\"\"a\"\":\"\"x \"\"}\"\r\n");
    }

    #[test]
    fn a_cell_is_quoted_and_is_no_formula() {
        let cells = |id: &str, name: &str| {
            let page =
                serde_json::json!({"items": [{"id": id, "frames": [{"name": name}], "of": ["a", "b"]}]});
            written(ExportFormat::Csv, &page.to_string(), false, None).0
        };
        assert_eq!(cells("a,b", "say \"it\""), "\"a,b\",\"say \"\"it\"\"\",a b\r\n");
        assert_eq!(cells("=1+1", "-[Cart total]"), "'=1+1,'-[Cart total],a b\r\n");
        assert_eq!(cells("\t@SUM(A1)", "＋1"), "' @SUM(A1),'＋1,a b\r\n");
        for unseen in [
            "\u{202e}", "\0", "\u{feff}", "\u{200b}", "\u{ad}", "\u{2060}", "\u{180e}", "\u{61c}", "\u{3164}",
        ] {
            let text = format!("{unseen}=1");
            assert!(cells(&text, "").starts_with('\''), "{text:?}");
        }
        assert_eq!(cells("a\r\nb\u{1b}[0m\u{85}", "1-1"), "a  b [0m ,1-1,a b\r\n");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_one_harmless_cell(text in "\\PC*|[\\x00-\\x1f\u{ad}\u{61c}\u{200b}\u{202e}\u{feff}=+@-]{0,5}[a-z,\"]{0,5}") {
            let cell = without_formula(&text);
            proptest::prop_assert!(!cell.contains(is_obeyed));
            let seen = cell.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c));
            proptest::prop_assert!(!seen.starts_with(['=', '+', '-', '@']));
            let mut lines = csv::Writer::from_writer(Vec::new());
            lines.write_record([cell.as_ref(), "end"]).unwrap();
            let bytes = lines.into_inner().unwrap();
            let mut read = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes.as_slice());
            let records: Vec<_> = read.records().map(Result::unwrap).collect();
            proptest::prop_assert_eq!(records.len(), 1);
            proptest::prop_assert_eq!(&records[0][0], cell.as_ref());
        }
    }
}
