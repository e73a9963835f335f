//! The types of trackers and tickets, for statements, requests and pages.

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
