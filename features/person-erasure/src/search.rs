//! The search for data of a person, and its deletion.
//!
//! A search looks first for reports that name the user, or for one session. Then it goes through the days: sessions of
//! the person that began on the day, with their reports and all that features have of them, and reports of the
//! installation. Every step may be repeated.

use crate::store::OpenErasure;
use std::collections::BTreeSet;
use std::slice::from_ref;
use std::time::Duration;
use time::Date;
use tokio::time::Instant;
use unslide_model::TenantId;
use unslide_store::persons::{ErasedSessions, PersonDay, PersonKey, PersonKind, PersonSession};
use unslide_store::reports::{self, PersonReports};
use unslide_store::tables::{Erasing, Selection, list_person_sessions};
use unslide_store::{Result, Store, Uuid, partitions, persons};

/// Sessions and reports that one statement lists.
const PAGE_ENTRIES: u32 = 200;
/// Time for which a search runs before other jobs get their turn.
const SEARCH_TURN_LIMIT: Duration = Duration::from_secs(10);

/// A search for data of one person.
pub struct PersonSearch<'s> {
    /// The store with the hooks of all features.
    pub store: &'s Store,
    /// The tenant.
    pub tenant: &'s TenantId,
    /// The erasure.
    pub erasure: &'s OpenErasure,
}

impl PersonSearch<'_> {
    /// Deletes the data of the person for one turn. Returns the day to go on with; None once all was searched.
    ///
    /// # Errors
    /// The database fails.
    pub async fn erase_some(&self) -> Result<Option<Date>> {
        let mut tx = self.store.tenant(self.tenant).await?;
        let days = partitions::list_days(&mut tx).await?;
        tx.rollback().await?;
        let begun = Instant::now();
        let next_day = self.erasure.next_day;
        if next_day.is_none() {
            self.erase_undated().await?;
        }
        if self.erasure.kind == PersonKind::Session {
            return Ok(None);
        }
        for day in days.into_iter().filter(|day| next_day.is_none_or(|next| *day >= next)) {
            if begun.elapsed() >= SEARCH_TURN_LIMIT {
                return Ok(Some(day));
            }
            self.erase_day(day).await?;
        }
        Ok(None)
    }

    /// Erases reports that name the user, or everything of a session.
    async fn erase_undated(&self) -> Result<()> {
        let hash = self.erasure.person_key().hash;
        match self.erasure.kind {
            PersonKind::User => self.erase_reports(PersonReports::User(hash)).await,
            PersonKind::Session => self.erase_with_reports(from_ref(&self.erasure.person_id), None).await,
            PersonKind::Installation => Ok(()),
        }
    }

    /// Erases the sessions of a user or an installation that began on a day, and the installation's reports of that
    /// day.
    async fn erase_day(&self, day: Date) -> Result<()> {
        let key = self.erasure.person_key();
        let received_before = self.erasure.requested_at;
        loop {
            let mut tx = self.store.tenant(self.tenant).await?;
            let wanted = PersonDay { key, day, received_before, limit: PAGE_ENTRIES };
            let sessions = list_person_sessions(&mut tx, wanted).await?;
            tx.rollback().await?;
            if sessions.is_empty() {
                break;
            }
            let apps: BTreeSet<String> = sessions.iter().map(|session| session.app.clone()).collect();
            let apps: Vec<String> = apps.into_iter().collect();
            let ids: Vec<String> = sessions.into_iter().map(|PersonSession { id, .. }| id).collect();
            self.erase_with_reports(&ids, Some(&apps)).await?;
        }
        if self.erasure.kind == PersonKind::Installation {
            self.erase_reports(PersonReports::Installation(key.hash, day)).await?;
        }
        Ok(())
    }

    /// Erases sessions with their reports. Replays do not bring them back.
    async fn erase_with_reports(&self, ids: &[String], apps: Option<&[String]>) -> Result<()> {
        let received_before = self.erasure.requested_at;
        let keys = ids.iter().map(|id| PersonKey::from_id(PersonKind::Session, id)).collect();
        let mut tx = self.store.tenant(self.tenant).await?;
        persons::record_erased(&mut tx, &keys, received_before).await?;
        tx.commit().await?;
        let runs: Vec<Uuid> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        self.erase_reports(PersonReports::Sessions(&runs)).await?;
        let spellings: BTreeSet<String> =
            ids.iter().flat_map(|id| [id.clone(), id.to_lowercase(), id.to_uppercase()]).collect();
        let spellings: Vec<String> = spellings.into_iter().collect();
        let sessions = ErasedSessions { ids: &spellings, apps, received_before };
        self.erasing().erase_rows(Selection::Sessions(sessions), None).await?;
        Ok(())
    }

    fn erasing(&self) -> Erasing<'_> {
        Erasing { store: self.store, tenant: self.tenant, request: self.erasure.request() }
    }

    async fn erase_reports(&self, search: PersonReports<'_>) -> Result<()> {
        loop {
            let mut tx = self.store.tenant(self.tenant).await?;
            let before = self.erasure.requested_at;
            let found = reports::list_person_reports(&mut tx, search, before, PAGE_ENTRIES).await?;
            tx.rollback().await?;
            // Those that are left were deleted by others.
            if self.erasing().erase_reports(found).await? == 0 {
                return Ok(());
            }
        }
    }
}
