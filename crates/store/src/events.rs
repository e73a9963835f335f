//! Events: what happened in a transaction of the store. Features act on it in the same transaction.

use crate::directory::{DirectoryChange, DirectoryEntry};
use crate::group_links::{DescribedGroup, GroupLink};
use crate::group_tickets::{TicketAnswer, TicketRequest};
use crate::groups::{Contradiction, GroupEvent};
use crate::slots::PublishedSymbols;
use crate::symbol_lookups::SymbolLookup;
use crate::{GroupId, KeyId, OwnerTx, RunId, TenantTx};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_model::{DebugId, ReportId, SenderKeyId};

/// Something that happened, with the transaction in which it did.
pub enum StoreEvent<'t> {
    /// Reports and their groups are written. These groups are new or came back.
    GroupsChanged(&'t mut TenantTx, &'t [GroupEvent]),
    /// New reports contradict that these groups are resolved. Their rows are locked. A feature adds the groups of which it judges
    /// itself whether they came back: they stay resolved until it calls [`return_group`](crate::reports::return_group).
    GroupsContradicted(&'t mut TenantTx, &'t [Contradiction], &'t mut BTreeSet<GroupId>),
    /// These groups are deleted.
    GroupsDeleted(&'t mut TenantTx, &'t [GroupId]),
    /// A merge or a split has given these groups other reports. Their rows are locked.
    GroupsMerged(&'t mut TenantTx, &'t [GroupId]),
    /// A transaction has stored these reports, or opened these groups, and does nothing after it.
    ReportsStored(&'t mut TenantTx, &'t StoredReports),
    /// These reports are in another group or counted for another report. Their revisions are the same, and their rows are locked.
    ReportsMoved(&'t mut TenantTx, &'t [ReportPlace]),
    /// This report is deleted. The transaction does nothing after it.
    ReportDeleted(&'t mut TenantTx, &'t DeletedReport),
    /// The tenant is deleted: a job erases its rows. The transaction may add rows, which others of the tenant may not any more.
    TenantDeleted(&'t mut TenantTx),
    /// Symbols of a tenant answer for a debug id. Their generation is that of the slot. The transaction does nothing after it.
    SymbolsPublished(&'t mut OwnerTx, &'t PublishedSymbols),
    /// A tenant's symbols of a debug id are deleted.
    SymbolsDeleted(&'t mut OwnerTx, &'t DebugId),
    /// All sessions of the people of these keys are ended before their time: these people lost their rights, or signed out everywhere.
    SessionsEnded(&'t mut TenantTx, &'t [KeyId]),
    /// A feature asks for the entry of a person in the directory. The feature that keeps the directory writes it, and keeps the
    /// entry from changing until the transaction ends.
    DirectoryAsked(&'t mut TenantTx, &'t str, &'t mut Option<DirectoryEntry>),
    /// The directory has changed people: they have left, came back, or are in other groups.
    DirectoryChanged(&'t mut TenantTx, DirectoryChange<'t>),
    /// A feature asks for the ticket of a group. The feature that makes tickets writes its answer.
    TicketRequested(&'t mut TenantTx, &'t TicketRequest<'t>, &'t mut Option<TicketAnswer>),
    /// A feature asks which of the newest versions of this app are bad. The feature that checks releases adds them.
    ReleasesAsked(&'t mut TenantTx, &'t str, &'t mut Vec<BadRelease>),
    /// An image is shown. The feature that looks for symbols beside uploads adds its look-ups of these debug ids.
    LookupsAsked(&'t mut TenantTx, &'t [DebugId], &'t mut Vec<SymbolLookup>),
    /// A group is described outside the console. Features add their links about it.
    GroupLinksAsked(&'t mut TenantTx, DescribedGroup<'t>, &'t mut Vec<GroupLink>),
    /// A feature announces something to the others.
    Announced(&'t mut TenantTx, &'t [Announcement]),
}

impl StoreEvent<'_> {
    /// Returns the transaction.
    pub(crate) fn transaction(&self) -> &OwnerTx {
        match self {
            StoreEvent::GroupsChanged(tx, _)
            | StoreEvent::GroupsContradicted(tx, ..)
            | StoreEvent::GroupsDeleted(tx, _)
            | StoreEvent::GroupsMerged(tx, _)
            | StoreEvent::ReportsStored(tx, _)
            | StoreEvent::ReportsMoved(tx, _)
            | StoreEvent::TenantDeleted(tx)
            | StoreEvent::ReportDeleted(tx, ..)
            | StoreEvent::SessionsEnded(tx, _)
            | StoreEvent::DirectoryAsked(tx, ..)
            | StoreEvent::DirectoryChanged(tx, _)
            | StoreEvent::TicketRequested(tx, ..)
            | StoreEvent::ReleasesAsked(tx, ..)
            | StoreEvent::LookupsAsked(tx, ..)
            | StoreEvent::GroupLinksAsked(tx, ..)
            | StoreEvent::Announced(tx, _) => tx,
            StoreEvent::SymbolsPublished(tx, _) | StoreEvent::SymbolsDeleted(tx, _) => tx,
        }
    }
}

/// A report that a transaction stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReport {
    /// Its id.
    pub id: ReportId,
    /// Which report of this id it is.
    pub variant: u32,
    /// Its app, as its row has it.
    pub app: String,
    /// The group that it is in by its own fingerprint.
    pub group: Option<GroupId>,
    /// Its revision.
    pub revision: u32,
    /// When it arrived first.
    pub received_at: OffsetDateTime,
    /// True if no revision of it was stored before.
    pub is_new: bool,
    /// Set if it tells of the end of its app for lack of memory.
    pub memory_exception: Option<MemoryException>,
}

impl StoredReport {
    /// Returns the place of its row.
    #[must_use]
    pub fn to_place(&self) -> ReportPlace {
        ReportPlace { id: self.id, variant: self.variant, received_at: self.received_at }
    }
}

/// The key of a report's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportPlace {
    /// The report's id.
    pub id: ReportId,
    /// Which report of this id it is.
    pub variant: u32,
    /// When it arrived first.
    pub received_at: OffsetDateTime,
}

/// A report that a transaction deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedReport {
    /// The key of its row.
    pub place: ReportPlace,
    /// Its app, as its row had it.
    pub app: String,
    /// Its last revision.
    pub revision: u32,
}

/// An end of an app for lack of memory with what finds its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryException {
    /// The time by the device's clock.
    pub at: OffsetDateTime,
    /// The app's version, as the row of the report has it.
    pub version: String,
    /// The device model.
    pub model: Option<String>,
    /// The id of the process that ended.
    pub process_id: Option<u32>,
    /// The run that ended, if the report names it.
    pub run_id: Option<RunId>,
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The public key that the report came with.
    pub sender_key: Option<SenderKeyId>,
}

/// Reports that a transaction stores for a tenant, and their groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredReports {
    /// Without duplicates and superseded revisions.
    pub reports: Vec<StoredReport>,
    /// The groups that are new or came back.
    pub groups: Vec<GroupEvent>,
}

/// A version that its check calls bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRelease {
    /// The version.
    pub version: String,
    /// The version that it was compared with.
    pub against: String,
    /// The counts that say so, in a sentence.
    pub reason: String,
}

/// The kind of [`Announcement::texts_removed`].
pub const TEXTS_REMOVED: &str = "texts_removed";

/// An event that a feature announces to the other features of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// A word for what happened, in lower case.
    pub kind: &'static str,
    /// The app, if it concerns one.
    pub app: Option<String>,
    /// More of it, for clients.
    pub data: Value,
}

impl Announcement {
    /// Says that texts of stored reports were removed, and titles of groups with them: a feature that has a copy must not keep it.
    #[must_use]
    pub fn texts_removed() -> Announcement {
        Announcement { kind: TEXTS_REMOVED, app: None, data: json!({}) }
    }
}
