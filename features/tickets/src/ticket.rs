//! The types of trackers and tickets, for statements, requests and pages.

use reqwest::Url;
use unslide_api::feature::operation::{is_text, is_ticket_url};
use unslide_store::sql::words;
use utoipa::ToSchema;

unslide_store::ids! {
    /// A tracker, in the address of its hooks.
    TrackerId;
    /// The random text in a ticket.
    TicketMarker;
}

words! {
    /// The product of a tracker.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum TrackerKind {
        Github = "github",
        Gitlab = "gitlab",
        JiraCloud = "jira_cloud",
        JiraDataCenter = "jira_data_center",
        Linear = "linear",
    }
}

words! {
    /// How far a ticket is.
    pub enum TicketState {
        /// It is being made.
        Creating = "creating",
        /// The tracker has refused it.
        Failed = "failed",
        Open = "open",
        /// It is closed, and its bug is fixed.
        Done = "done",
        /// It is closed without a fix.
        Dropped = "dropped",
        /// The tracker does not have it, or not for this token.
        Lost = "lost",
    }
}

/// The most bytes of the id of a ticket, and of its name.
const NAME_BYTES_LIMIT: usize = 100;
/// The most bytes of the name of a version.
const VERSION_BYTES_LIMIT: usize = 200;

/// A ticket that a person names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTicket {
    pub id: String,
    pub key: String,
    pub url: String,
}

/// A ticket as its tracker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTicket {
    /// The tracker's id, by which it is read.
    pub id: String,
    /// Its name for people.
    pub key: String,
    pub url: String,
    pub state: TicketState,
    /// The name of the version that fixes it.
    pub fix_version: Option<String>,
}

impl RemoteTicket {
    /// Returns the ticket if its id and its name are of the form that trackers give them: what a tracker answers is stored, sent back
    /// in paths, and shown. An address of another host than that of `page`, the ticket's own address, gives way to `page`.
    pub fn check_names(self, page: String) -> Option<RemoteTicket> {
        if !is_name(&self.id) || !is_name(self.key.trim_start_matches('#')) {
            return None;
        }
        let fix_version = self.fix_version.filter(|version| is_text(version, VERSION_BYTES_LIMIT));
        let url = if is_ticket_url(&self.url) && has_same_host(&self.url, &page) { self.url } else { page };
        Some(RemoteTicket { url, fix_version, ..self })
    }
}

/// Returns true for letters, digits, `-` and `_`.
fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_LIMIT).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn has_same_host(one: &str, other: &str) -> bool {
    let host = |text: &str| Url::parse(text).ok().and_then(|url| url.host_str().map(str::to_owned));
    host(one).is_some_and(|found| host(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(id: &str, key: &str, url: &str) -> RemoteTicket {
        let fix_version = Some("2.0\u{7}".to_owned());
        RemoteTicket {
            id: id.to_owned(),
            key: key.to_owned(),
            url: url.to_owned(),
            state: TicketState::Open,
            fix_version,
        }
    }

    /// Proves: bounded-input
    #[test]
    fn a_ticket_is_taken_with_plain_names_and_an_address_of_its_tracker() {
        let page = "https://tracker.example.com/issues/17";
        let url_of = |url: &str| remote("17", "#17", url).check_names(page.to_owned()).unwrap().url;
        let moved = "https://tracker.example.com/other/issues/17";
        assert_eq!(url_of(moved), moved);
        let long = format!("https://tracker.example.com/{}", "x".repeat(2_000));
        for url in [
            "",
            "javascript:alert(1)",
            "https://example.org/17",
            "https://tracker.example.com@example.org/",
            &long,
        ] {
            assert_eq!(url_of(url), page, "{url}");
        }
        assert_eq!(remote("17", "#17", page).check_names(page.to_owned()).unwrap().fix_version, None);
        for id in ["", "1/../../users", "1?x=y", "a b", &"1".repeat(101)] {
            assert_eq!(remote(id, "#17", page).check_names(page.to_owned()), None, "{id}");
            assert_eq!(remote("17", id, page).check_names(page.to_owned()), None, "{id}");
        }
    }
}
