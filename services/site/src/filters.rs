//! Escaping and filters of templates.

use super::words;
use askama_base as askama;
pub use askama_base::filters::*;
use askama_base::{Values, filter_fn};
use std::convert::Infallible;
use std::fmt;
use time::OffsetDateTime;
use unslide_report::text::{escape_line, is_obeyed};

/// The escaping of a text in a template. Characters that control a terminal or the direction of writing are
/// shown as `\u{1b}`, so that no text of a device or a client changes how the page is read.
#[derive(Clone, Copy)]
pub struct Html;

impl Escaper for Html {
    fn write_escaped_str<W: fmt::Write>(&self, page: W, text: &str) -> fmt::Result {
        askama_base::filters::Html.write_escaped_str(page, &escape_line(text))
    }
}

/// Escapes a text only for HTML, so that a form sends it back unchanged.
#[filter_fn]
pub fn exact(text: &str, _: &dyn Values) -> Result<Safe<String>, Infallible> {
    Ok(Safe(escape(text, askama_base::filters::Html)?.to_string()))
}

/// Escapes each line of a text.
#[filter_fn]
pub fn lines(text: &str, _: &dyn Values) -> Result<Safe<String>, Infallible> {
    let lines: Vec<_> = text.lines().map(escape_line).collect();
    Ok(Safe(escape(lines.join("\n"), askama_base::filters::Html)?.to_string()))
}

/// Escapes each line of a text, and makes links of its `http` and `https` addresses.
#[filter_fn]
pub fn linked(text: &str, _: &dyn Values) -> Result<Safe<String>, Infallible> {
    let lines: Result<Vec<String>, Infallible> = text.lines().map(link_addresses).collect();
    Ok(Safe(lines?.join("\n")))
}

fn link_addresses(line: &str) -> Result<String, Infallible> {
    let mut html = String::new();
    let mut rest = line;
    while let Some((before, address, after)) = split_at_address(rest) {
        let shown = escape(address, askama_base::filters::Html)?;
        html.push_str(&escape(before, Html)?.to_string());
        html.push_str(&format!("<a href=\"{shown}\" rel=\"noopener nofollow\">{shown}</a>"));
        rest = after;
    }
    html.push_str(&escape(rest, Html)?.to_string());
    Ok(html)
}

/// Returns the first address in a line, without the punctuation of its sentence, between what is before and after it.
fn split_at_address(line: &str) -> Option<(&str, &str, &str)> {
    let is_end = |c: char| c.is_whitespace() || is_obeyed(c) || "<>\"'`{}|\\^".contains(c);
    line.match_indices("http").find_map(|(start, _)| {
        let (before, rest) = line.split_at(start);
        let host = rest.strip_prefix("https://").or_else(|| rest.strip_prefix("http://"))?;
        let is_host = host.starts_with(|c: char| c.is_alphanumeric() || c == '[');
        if before.ends_with(char::is_alphanumeric) || !is_host {
            return None;
        }
        let whole = rest.split(is_end).next()?;
        let mut address = whole.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
        for (open, close) in [('(', ')'), ('[', ']')] {
            if address.matches(close).count() > address.matches(open).count() {
                address = address.trim_end_matches(close).trim_end_matches(['.', ',']);
            }
        }
        let (address, after) = rest.split_at(address.len());
        Some((before, address, after))
    })
}

/// Returns a text, or a word if it is empty.
#[filter_fn]
pub fn or(text: &str, _: &dyn Values, word: &str) -> Result<String, Infallible> {
    Ok(words::text_or(text, word).to_owned())
}

/// Formats a time relative to now, with the full time in its title and for machines.
#[filter_fn]
pub fn when(at: &OffsetDateTime, _: &dyn Values, now: OffsetDateTime) -> Result<Safe<String>, Infallible> {
    Ok(words::format_time(*at, now))
}

/// Formats a number with thousands separators.
#[filter_fn]
pub fn grouped<N: Copy + TryInto<i64>>(number: &N, _: &dyn Values) -> Result<String, Infallible> {
    Ok(words::grouped(*number))
}

/// Formats a number with the name of the counted things.
#[filter_fn]
pub fn counted<N: Copy + TryInto<i64>>(
    number: &N,
    _: &dyn Values,
    one: &str,
    many: &str,
) -> Result<String, Infallible> {
    Ok(words::counted(*number, one, many))
}

/// Formats bytes in the largest unit that gives a number of at least one.
#[filter_fn]
pub fn bytes(size: &u64, _: &dyn Values) -> Result<String, Infallible> {
    Ok(words::bytes(*size))
}

/// Formats a time in the largest unit that gives a number of at least one.
#[filter_fn]
pub fn duration(millis: &u64, _: &dyn Values) -> Result<String, Infallible> {
    Ok(words::duration(*millis))
}

/// Formats a state: a class of the stylesheet, a mark and a word.
#[filter_fn]
pub fn status<W: fmt::Display>(state: (&str, &str, W), _: &dyn Values) -> Result<Safe<String>, Infallible> {
    let (class, mark, word) = state;
    let word = escape(word, Html)?;
    let mark = format!("<span class=\"mark {class}\" aria-hidden=\"true\">{mark}</span>");
    Ok(Safe(format!("<span class=\"status\">{mark} {word}</span>")))
}

#[cfg(test)]
mod tests {
    use crate::escaping::{self, Template, filters};

    #[derive(Template)]
    #[template(
        source = "{{ name }}|{{ name|lines }}|{{ name|exact }}",
        ext = "html",
        askama = escaping
    )]
    struct Texts {
        name: &'static str,
    }

    #[test]
    fn a_name_with_control_characters_is_text_and_a_form_sends_it_back_as_it_was() {
        let page = Texts { name: "a\u{202e}\u{1b}<b>\nc" }.render().unwrap();
        let shown = r"a\u{202e}\u{1b}&#60;b&#62;";
        assert_eq!(page, format!("{shown}\\nc|{shown}\nc|a\u{202e}\u{1b}&#60;b&#62;\nc"));
    }

    #[derive(Template)]
    #[template(source = "{{ text|linked }}", ext = "html", askama = escaping)]
    struct Comment {
        text: &'static str,
    }

    #[test]
    fn addresses_of_a_comment_are_links_and_the_rest_is_text() {
        let page = |text| Comment { text }.render().unwrap();
        let link = |to: &str| format!("<a href=\"{to}\" rel=\"noopener nofollow\">{to}</a>");
        assert_eq!(page("no address: javascript:alert(1) ftp://a xhttp://b http://"), {
            "no address: javascript:alert(1) ftp://a xhttp://b http://"
        });
        let [one, two] = ["https://example.com/a_(b)?c=1#d", "http://[::1]:8080/x"].map(link);
        assert_eq!(page("see https://example.com/a_(b)?c=1#d."), format!("see {one}."));
        assert_eq!(page("(http://[::1]:8080/x)\n<b>"), format!("({two})\n&#60;b&#62;"));
        let page = page("https://a.example/\"onclick=\"x http://b.example/\u{202e}c&d");
        assert_eq!(page.matches("<a href=").count(), 2, "{page}");
        assert!(page.contains("</a>&#34;onclick=&#34;x "), "{page}");
        assert!(page.ends_with(r"http://b.example/</a>\u{202e}c&#38;d"), "{page}");
    }
}
