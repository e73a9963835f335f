//! Pages for the `type` of problems: the meaning of each kind and advice for clients.

use super::{Kind, Problem};
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, header};
use std::fmt::Write;

/// `GET /problems`: all kinds on one page.
pub async fn render_list() -> Response {
    let mut rows = String::new();
    for kind in Kind::ALL {
        let (slug, status, title) = (kind.slug(), kind.status().as_u16(), kind.title());
        let _ = writeln!(
            rows,
            "<tr><td>{status}</td><td><a href=\"/problems/{slug}\">{slug}</a></td><td>{title}</td></tr>"
        );
    }
    render_page(
        "Problems",
        &format!(
            "<p>The API answers a failed request with problem details (RFC 9457). Their <code>type</code> is one \
             of these paths and never changes; <code>detail</code> says what is wrong with the request.</p>\n\
             <table>\n<tr><th>status</th><th>type</th><th>title</th></tr>\n{rows}</table>"
        ),
    )
}

pub async fn render_kind(Path(slug): Path<String>) -> Result<Response, Problem> {
    let kind = Kind::ALL.iter().find(|kind| kind.slug() == slug);
    let kind = kind.ok_or_else(|| Problem::new(Kind::NotFound, "/problems lists all problems"))?;
    let body = format!(
        "<p>{} <code>{}</code></p>\n<p>{}</p>\n<p>{}</p>\n<p><a href=\"/problems\">All problems</a></p>",
        kind.status().as_u16(),
        kind.uri(),
        render_code(kind.meaning()),
        render_code(kind.advice())
    );
    Ok(render_page(kind.title(), &body))
}

/// Renders a text of the table as HTML: text between backticks is code.
fn render_code(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let pieces = escaped.split('`').enumerate();
    pieces.map(|(i, piece)| if i % 2 == 1 { format!("<code>{piece}</code>") } else { piece.into() }).collect()
}

fn render_page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>:root {{ color-scheme: light dark }} body {{ font: 1rem/1.5 system-ui; max-width: 44rem; margin: 2rem auto; \
         padding: 0 1rem }} td, th {{ text-align: left; padding-right: 1rem; vertical-align: top }}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    );
    let mut response = Html(html).into_response();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the page of the docs that lists every problem.
    fn documentation() -> String {
        let mut page = String::from(
            "# Problems\n\nThe API answers a failed request with problem details (RFC 9457). `type` is one of the paths \
             below and never changes; `detail` says what is wrong with this request, with its values. A running API \
             shows the same texts at `/problems`.\n\nA test writes this page from the code: \
             `UPDATE_DOCS=1 make check CRATE=api TEST=the_page_of_problems`.\n",
        );
        for kind in Kind::ALL {
            let (status, uri, title) = (kind.status().as_u16(), kind.uri(), kind.title());
            let _ = write!(
                page,
                "\n## {title}\n`{uri}` · {status}\n\n* Cause: {}\n* Remedy: {}\n",
                kind.meaning(),
                kind.advice()
            );
        }
        page
    }

    #[test]
    fn the_page_of_problems_lists_those_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/problems.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, documentation()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(written, documentation(), "write it with UPDATE_DOCS=1");
    }

    #[test]
    fn texts_are_sentences_and_their_markup_is_closed() {
        for kind in Kind::ALL {
            for text in [kind.meaning(), kind.advice()] {
                assert!(text.ends_with('.'), "{}: {text}", kind.slug());
                assert_eq!(text.matches('`').count() % 2, 0, "{}: {text}", kind.slug());
            }
        }
        assert_eq!(render_code("send `<a>` & wait"), "send <code>&lt;a></code> &amp; wait");
    }
}
