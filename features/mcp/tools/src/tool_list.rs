//! The tools, each with its arguments and its request.

use crate::arguments::{Argument, ArgumentValues};
use crate::tool::{ApiRequest, ToolAnswer, ToolSpec, build_path, path_segment};
use http::Method;
use serde_json::{Value, json};

/// Entries of a page of a list, unless the call names a number.
const DEFAULT_ENTRIES: &str = "20";

const APP: Argument = Argument::optional_text("app", "bundle identifier, such as com.example.shop");
const VERSION: Argument = Argument::optional_text("version", "version of the app");
const LIMIT: Argument = Argument::optional_number("limit", "entries of the page, 1 to 500; 20 if absent");
const CURSOR: Argument = Argument::optional_text("cursor", "next_cursor of the page before, unchanged");
const PAGE: Argument = Argument::optional_number("page", "page of the document, from 1; 1 if absent");
const GROUP_ID: Argument = Argument::required_text("id", "id or short id of the group, such as SHOP-1A2B");
const SINCE: Argument = Argument::optional_time(
    "since",
    "arrived at this time or later: 2026-11-20, yesterday, 12h, 1w or a time of RFC 3339",
);

const GROUP_MEMBERS: &[&str] = &[
    "short_id",
    "id",
    "title",
    "culprit",
    "kind",
    "app",
    "status",
    "assignee",
    "reports",
    "all_reports",
    "affected_devices",
    "first_version",
    "last_version",
    "first_seen",
    "last_seen",
    "provisional",
    "growth",
];
const REPORT_MEMBERS: &[&str] = &[
    "id",
    "variant",
    "received_at",
    "app",
    "version",
    "build",
    "type",
    "reason",
    "status",
    "model",
    "os_version",
    "group",
    "symbols_missing",
];

/// Every tool, those that change groups last.
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "list_apps",
        description: "Lists the apps, the one with the newest report first.",
        arguments: &[LIMIT, CURSOR],
        writes: false,
        answer: ToolAnswer::List(&["app", "reports", "versions", "devices", "first_day", "last_day"]),
        request: |values| ApiRequest::get(list_path("/v1/apps", values, &[])),
    },
    ToolSpec {
        name: "list_versions",
        description: "Lists an app's versions with their reports, devices and missing symbols, the newest first.",
        arguments: &[Argument::required_text("app", "bundle identifier"), LIMIT, CURSOR],
        writes: false,
        answer: ToolAnswer::List(&[]),
        request: |values| {
            let path = format!("/v1/apps/{}/versions", path_segment(values, "app"));
            ApiRequest::get(list_path(&path, values, &[]))
        },
    },
    ToolSpec {
        name: "list_groups",
        description: "Lists groups: each is one bug with its reports. new_in lists bugs that are new in a version or came back in it, \
                      new_since those whose first report arrived then or later. sort is last_seen, first_seen, reports or growing.",
        arguments: &[
            APP,
            VERSION,
            Argument::optional_text("new_in", "version that the group is new in, or came back in"),
            Argument::optional_time(
                "seen_since",
                "its last report arrived at this time or later, such as yesterday or 7d",
            ),
            Argument::optional_time("new_since", "its first report arrived at this time or later"),
            Argument::optional_text("kind", "kind of the failure, such as crash or hang"),
            Argument::optional_text(
                "status",
                "open, regressed, resolved or ignored; several with commas between",
            ),
            Argument::optional_text("assignee", "name of the person who works on it"),
            Argument::optional_text("sort", "last_seen, first_seen, reports or growing"),
            LIMIT,
            CURSOR,
        ],
        writes: false,
        answer: ToolAnswer::List(GROUP_MEMBERS),
        request: |values| {
            let query = [
                ("app", "app"),
                ("version", "version"),
                ("new_in", "new_in"),
                ("seen_since", "seen_from"),
                ("new_since", "new_from"),
                ("kind", "kind"),
                ("status", "status"),
                ("assignee", "assignee"),
                ("sort", "sort"),
            ];
            ApiRequest::get(list_path("/v1/groups", values, &query))
        },
    },
    ToolSpec {
        name: "search_groups",
        description: "Finds groups by a text of 3 to 100 characters in the title, the reason, or a function or file of a crash.",
        arguments: &[Argument::required_text("text", "the text, in any case"), APP, LIMIT, CURSOR],
        writes: false,
        answer: ToolAnswer::List(GROUP_MEMBERS),
        request: |values| ApiRequest::get(list_path("/v1/groups", values, &[("text", "q"), ("app", "app")])),
    },
    ToolSpec {
        name: "explain_group",
        description: "Gives the evidence of a bug in one answer: its state and statistics, the fault with its subject, the stack with \
                      source lines, the functions that were edited before it, what its devices have in common, and its owner. A \
                      section that is missing says why.",
        arguments: &[GROUP_ID],
        writes: false,
        answer: ToolAnswer::Evidence,
        request: |values| {
            ApiRequest::get(format!(
                "/v1/groups/{}?format=markdown&evidence=true",
                path_segment(values, "id")
            ))
        },
    },
    ToolSpec {
        name: "read_changes",
        description: "Reads as Markdown which functions of a group's stack were edited between the last version without the group and the \
                      first with it, with the commits of both builds and the page that compares them.",
        arguments: &[GROUP_ID, PAGE],
        writes: false,
        answer: ToolAnswer::Markdown,
        request: |values| {
            ApiRequest::get(format!(
                "/v1/groups/{}/changes?format=markdown&evidence=true",
                path_segment(values, "id")
            ))
        },
    },
    ToolSpec {
        name: "list_reports",
        description: "Lists reports, the newest first.",
        arguments: &[
            APP,
            VERSION,
            Argument::optional_text("group", "id or short id of their group"),
            SINCE,
            Argument::optional_time("until", "arrived before this time"),
            Argument::optional_text("model", "machine, such as iPhone16,1"),
            Argument::optional_text("os_version", "version of the operating system"),
            LIMIT,
            CURSOR,
        ],
        writes: false,
        answer: ToolAnswer::List(REPORT_MEMBERS),
        request: |values| {
            let same = ["app", "version", "group", "model", "os_version"].map(|name| (name, name));
            let query: Vec<_> = same.into_iter().chain([("since", "from"), ("until", "to")]).collect();
            ApiRequest::get(list_path("/v1/reports", values, &query))
        },
    },
    ToolSpec {
        name: "read_report",
        description: "Reads a report as Markdown with evidence: what happened, the stack, the analysis, app, device, missing \
                      symbols and its group.",
        arguments: &[
            Argument::required_text("id", "id of the report"),
            Argument::optional_number("variant", "index of the report if several have this id; 0 if absent"),
            PAGE,
        ],
        writes: false,
        answer: ToolAnswer::Markdown,
        request: |values| {
            let path = format!("/v1/reports/{}?format=markdown&evidence=true", path_segment(values, "id"));
            ApiRequest::get(build_path(&path, values, &[("variant", "variant")]))
        },
    },
    ToolSpec {
        name: "read_profile",
        description: "Reads the sampled stacks of a hang, of CPU use or of a launch: the heaviest first, each with its samples. It \
                      is the flame graph as text.",
        arguments: &[Argument::required_text("id", "id of the report"), PAGE],
        writes: false,
        answer: ToolAnswer::Stacks,
        request: |values| {
            ApiRequest::get(format!("/v1/reports/{}/profile?format=folded", path_segment(values, "id")))
        },
    },
    ToolSpec {
        name: "search",
        description: "Finds an entry by its id or short id, groups, apps and versions by a part of their name, and the reports and \
                      sessions of a person by the whole id of the user, installation or device if the tenant allows it.",
        arguments: &[Argument::required_text("text", "the id or a part of a name"), APP],
        writes: false,
        answer: ToolAnswer::List(&["kind", "id", "title", "app", "version", "at", "found_by"]),
        request: |values| ApiRequest::get(build_path("/v1/search", values, &[("text", "q"), ("app", "app")])),
    },
    ToolSpec {
        name: "list_missing_symbols",
        description: "Lists the debug ids of images without symbols, the most wanted first. Their dSYMs are to be uploaded.",
        arguments: &[APP, VERSION, LIMIT, CURSOR],
        writes: false,
        answer: ToolAnswer::List(&[]),
        request: |values| {
            let same = ["app", "version"].map(|name| (name, name));
            ApiRequest::get(list_path("/v1/missing-symbols", values, &same))
        },
    },
    ToolSpec {
        name: "compare_versions",
        description: "Compares an app's versions by sessions without a crash, launch and hang times and more, with the change \
                      since the version before, the newest version first.",
        arguments: &[
            Argument::required_text("app", "bundle identifier"),
            Argument::optional_text("versions", "the versions to read, with commas between; all if absent"),
            Argument::optional_text(
                "compare_with",
                "the version to compare with; the one before each if absent",
            ),
            Argument::optional_number("days", "days of the period, 1 to 90; 14 if absent"),
            PAGE,
        ],
        writes: false,
        answer: ToolAnswer::Versions,
        request: |values| {
            let path = format!("/v1/apps/{}/health/versions", path_segment(values, "app"));
            let same = ["versions", "compare_with", "days"].map(|name| (name, name));
            ApiRequest::get(build_path(&path, values, &same))
        },
    },
    ToolSpec {
        name: "check_version",
        description: "Says whether a version is good or bad compared with an older one, or whether it is too early to say, with the \
                      counts. It is wrong with a chance of 1 % at most, however often it is asked.",
        arguments: &[
            Argument::required_text("app", "bundle identifier"),
            Argument::required_text("version", "the version to judge"),
            Argument::optional_text(
                "against",
                "the version to compare with; the older one with the most sessions if absent",
            ),
        ],
        writes: false,
        answer: ToolAnswer::Entry(&["verdict", "reasons", "hint"]),
        request: |values| {
            let [app, version] = ["app", "version"].map(|name| path_segment(values, name));
            let path = format!("/v1/apps/{app}/versions/{version}/check");
            ApiRequest::get(build_path(&path, values, &[("against", "against")]))
        },
    },
    ToolSpec {
        name: "check_fix",
        description: "Says whether the bug of a resolved group is fixed, not fixed, or whether it is too early to say, with the crashes \
                      seen and those expected at the old rate.",
        arguments: &[GROUP_ID],
        writes: false,
        answer: ToolAnswer::Entry(&["verdict", "text", "hint", "resolved_in"]),
        request: |values| ApiRequest::get(format!("/v1/groups/{}/verdict", path_segment(values, "id"))),
    },
    ToolSpec {
        name: "compare_devices",
        description: "Says which device models, system versions and flags the devices with the bug of a group have more often than \
                      all installations of the same version, with the counts, and what is not compared.",
        arguments: &[GROUP_ID],
        writes: false,
        answer: ToolAnswer::Entry(&["version", "crashed", "installations", "values", "not_compared", "hint"]),
        request: |values| ApiRequest::get(format!("/v1/groups/{}/commonalities", path_segment(values, "id"))),
    },
    ToolSpec {
        name: "resolve_group",
        description: "Resolves a group. A new report of a later version opens it again.",
        arguments: &[GROUP_ID, Argument::optional_text("in_version", "version without the bug")],
        writes: true,
        answer: ToolAnswer::Done,
        request: |values| {
            let mut body = json!({"status": "resolved"});
            if let Some(version) = values.get("in_version") {
                body["resolved_in"] = version.into();
            }
            change_group(values, body)
        },
    },
    ToolSpec {
        name: "assign_group",
        description: "Assigns a group to a person.",
        arguments: &[GROUP_ID, Argument::required_text("assignee", "name of the person; empty for none")],
        writes: true,
        answer: ToolAnswer::Done,
        request: |values| change_group(values, json!({"assignee": values.get("assignee")})),
    },
    ToolSpec {
        name: "comment_on_group",
        description: "Adds a comment to a group's activity. It cannot be removed.",
        arguments: &[
            GROUP_ID,
            Argument::required_text("text", "the comment, plain text of at most 4000 bytes"),
        ],
        writes: true,
        answer: ToolAnswer::Done,
        request: |values| ApiRequest {
            method: Method::POST,
            path: format!("/v1/groups/{}/comments", path_segment(values, "id")),
            body: Some(json!({"text": values.get("text")})),
        },
    },
];

/// Returns the tools of a client, with those that change groups if it may use them.
pub fn list_allowed(may_write: bool) -> impl Iterator<Item = &'static ToolSpec> {
    TOOLS.iter().filter(move |tool| may_write || !tool.writes)
}

fn list_path(path: &str, values: &ArgumentValues, query: &[(&str, &str)]) -> String {
    let path = build_path(path, values, query);
    let separator = if path.contains('?') { '&' } else { '?' };
    let limit = values.get("limit").unwrap_or(DEFAULT_ENTRIES);
    build_path(&format!("{path}{separator}limit={limit}"), values, &[("cursor", "cursor")])
}

fn change_group(values: &ArgumentValues, body: Value) -> ApiRequest {
    ApiRequest {
        method: Method::PATCH,
        path: format!("/v1/groups/{}", path_segment(values, "id")),
        body: Some(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_change_groups_are_listed_only_for_clients_that_may() {
        let names = |may_write| list_allowed(may_write).map(|tool| tool.name).collect::<Vec<_>>();
        assert!(
            !names(false)
                .iter()
                .any(|name| ["resolve_group", "assign_group", "comment_on_group"].contains(name))
        );
        assert_eq!((names(false).len(), names(true).len()), (15, 18));
    }

    #[test]
    fn a_tool_that_reads_sends_no_other_method() {
        let all = [("id", "a"), ("version", "e"), ("app", "b"), ("text", "c"), ("assignee", "d")];
        for tool in TOOLS {
            let given =
                all.into_iter().filter(|(name, _)| tool.arguments.iter().any(|one| one.name == *name));
            let given: serde_json::Map<_, _> =
                given.map(|(name, value)| (name.to_owned(), value.into())).collect();
            let request =
                (tool.request)(&ArgumentValues::from_call(tool.arguments, Some(&given), 0).unwrap());
            assert_eq!(request.method == Method::GET, !tool.writes, "{}", tool.name);
            assert!(request.path.starts_with("/v1/"), "{}", request.path);
        }
    }
}
