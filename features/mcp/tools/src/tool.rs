//! A tool, and the request of the API that a call of it becomes.

use crate::arguments::{Argument, ArgumentValues, argument_schema};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;

/// The characters of a segment or a value that are not escaped.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// A request of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiRequest {
    pub method: Method,
    /// The path with its query.
    pub path: String,
    pub body: Option<Value>,
}

impl ApiRequest {
    pub fn get(path: String) -> ApiRequest {
        ApiRequest { method: Method::GET, path, body: None }
    }
}

/// The form of the API's answer, and the parts of it that the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolAnswer {
    /// A page of a list, of which each entry has these members.
    List(&'static [&'static str]),
    /// One entry with these members.
    Entry(&'static [&'static str]),
    /// Pages of a Markdown document.
    Markdown,
    /// The evidence of a bug: a Markdown document with sections of other operations, in one answer.
    Evidence,
    /// Figures of versions, in pages.
    Versions,
    /// Sampled stacks, one a line with its weight, the heaviest first.
    Stacks,
    /// Nothing but that it is done.
    Done,
}

/// A tool. `request` makes the request of a call.
#[derive(Clone, Copy)]
pub struct ToolSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub arguments: &'static [Argument],
    /// True if the tool changes a group.
    pub writes: bool,
    pub answer: ToolAnswer,
    pub request: fn(&ArgumentValues) -> ApiRequest,
}

impl ToolSpec {
    /// Returns the tool as clients see it.
    pub fn to_tool(self) -> Tool {
        let annotations = ToolAnnotations::new().read_only(!self.writes).destructive(false).open_world(false);
        Tool::new(self.name, self.description, argument_schema(self.arguments)).with_annotations(annotations)
    }
}

/// Returns a path with the values of its query, in which these arguments have other names.
pub fn build_path(path: &str, values: &ArgumentValues, query: &[(&str, &str)]) -> String {
    let mut path = path.to_owned();
    let mut separator = if path.contains('?') { '&' } else { '?' };
    for (argument, parameter) in query {
        if let Some(value) = values.get(argument) {
            path.push(separator);
            path.push_str(parameter);
            path.push('=');
            path.extend(utf8_percent_encode(value, PLAIN));
            separator = '&';
        }
    }
    path
}

/// Returns an argument as a segment of a path. It cannot lead to another path.
pub fn path_segment(values: &ArgumentValues, name: &str) -> String {
    let value = values.get(name).unwrap_or_default();
    let escaped = utf8_percent_encode(value, PLAIN).to_string();
    // A client or a server might resolve these.
    if matches!(escaped.as_str(), "" | "." | "..") { "%00".to_owned() } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_argument_cannot_leave_its_place_in_a_path() {
        let known = &[Argument::required_text("id", "the id"), Argument::optional_text("q", "a text")];
        let values = |id: &str| {
            ArgumentValues::from_call(known, json!({"id": id, "q": "a b&c=/?#"}).as_object(), 0).unwrap()
        };
        assert_eq!(path_segment(&values("../keys?x"), "id"), "..%2Fkeys%3Fx");
        assert_eq!(path_segment(&values(".."), "id"), "%00");
        assert_eq!(build_path("/v1/a", &values("b"), &[("q", "text")]), "/v1/a?text=a%20b%26c%3D%2F%3F%23");
    }
}
