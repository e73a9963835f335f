//! The search for data of a person, and its deletion or count.
//!
//! A search looks first for reports that name the user, or for one session. Then it goes through the days: sessions of
//! the person that began on the day, with their reports and all that features have of them, and reports of the
//! installation. Every step may be repeated.

use crate::store::OpenErasure;
use std::collections::BTreeSet;
use time::{Date, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::persons::{ErasedSessions, PersonDay, PersonKey, PersonKind, PersonSession};
use unslide_store::reports::{self, PersonReports};
use unslide_store::tables::{Erasing, RemovalCount, Selection, list_person_sessions};
use unslide_store::{Result, Store, TenantTx, Uuid, partitions, persons};

/// A search for data of one person.
pub struct PersonSearch<'s> {
    /// Removes the data that is found, or only counts it.
    pub erasing: Erasing<'s>,
    /// Kind of the person's id.
    pub kind: PersonKind,
    /// The person's id.
    pub id: &'s str,
    /// Data that arrived later stays.
    pub received_before: OffsetDateTime,
    /// The day to go on with; None at the beginning of a search.
    pub next_day: Option<Date>,
}

/// Counts what the erasure of a person would remove, and removes nothing.
///
/// # Errors
/// The database fails.
pub async fn count_removal(tx: &mut TenantTx, kind: PersonKind, id: &str) -> Result<RemovalCount> {
    let received_before = tx.now();
    let erasing = Erasing::counting(tx);
    let mut search = PersonSearch { erasing, kind, id, received_before, next_day: None };
    search.erase_some().await?;
    Ok(search.erasing.into_count())
}

impl<'s> PersonSearch<'s> {
    /// Goes on with an erasure.
    #[must_use]
    pub fn for_erasure(store: &'s Store, tenant: &'s TenantId, erasure: &'s OpenErasure) -> PersonSearch<'s> {
        PersonSearch {
            erasing: Erasing::removing(store, tenant, erasure.request()),
            kind: erasure.kind,
            id: &erasure.person_id,
            received_before: erasure.requested_at,
            next_day: erasure.next_day,
        }
    }

    fn person_key(&self) -> PersonKey {
        PersonKey::from_id(self.kind, self.id)
    }

    /// Deletes the data of the person for one turn. Returns the day to go on with; None once all was searched.
    ///
    /// # Errors
    /// The database fails.
    pub async fn erase_some(&mut self) -> Result<Option<Date>> {
        let next_day = self.next_day;
        if next_day.is_none() {
            self.erase_undated().await?;
        }
        if self.kind == PersonKind::Session {
            return Ok(None);
        }
        let days = partitions::list_days(&mut *self.erasing.begin_search().await?).await?;
        for day in days.into_iter().filter(|day| next_day.is_none_or(|next| *day >= next)) {
            if self.erasing.is_turn_over() {
                return Ok(Some(day));
            }
            self.erase_day(day).await?;
        }
        Ok(None)
    }

    /// Erases reports that name the user, or everything of a session.
    async fn erase_undated(&mut self) -> Result<()> {
        let hash = self.person_key().hash;
        match self.kind {
            PersonKind::User => self.erase_reports(PersonReports::User(hash)).await,
            PersonKind::Session => self.erase_with_reports(&[self.id.to_owned()], None).await,
            PersonKind::Installation => Ok(()),
        }
    }

    /// Erases the sessions of a user or an installation that began on a day, and the installation's reports of that
    /// day.
    async fn erase_day(&mut self, day: Date) -> Result<()> {
        let key = self.person_key();
        let received_before = self.received_before;
        loop {
            let wanted = PersonDay { key, day, received_before, limit: self.erasing.page_entries() };
            let sessions = list_person_sessions(&mut *self.erasing.begin_search().await?, wanted).await?;
            if sessions.is_empty() {
                break;
            }
            let apps: BTreeSet<String> = sessions.iter().map(|session| session.app.clone()).collect();
            let apps: Vec<String> = apps.into_iter().collect();
            let ids: Vec<String> = sessions.into_iter().map(|PersonSession { id, .. }| id).collect();
            self.erase_with_reports(&ids, Some(&apps)).await?;
            // What is only counted would be found again.
            if self.erasing.is_counting() {
                break;
            }
        }
        if self.kind == PersonKind::Installation {
            self.erase_reports(PersonReports::Installation(key.hash, day)).await?;
        }
        Ok(())
    }

    /// Erases sessions with their reports. Replays do not bring them back.
    async fn erase_with_reports(&mut self, ids: &[String], apps: Option<&[String]>) -> Result<()> {
        let received_before = self.received_before;
        if let Some(mut tx) = self.erasing.begin_removal().await? {
            let keys = ids.iter().map(|id| PersonKey::from_id(PersonKind::Session, id)).collect();
            persons::record_erased(&mut tx, &keys, received_before).await?;
            tx.commit().await?;
        }
        let runs: Vec<Uuid> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        self.erase_reports(PersonReports::Sessions(&runs)).await?;
        let spellings: BTreeSet<String> =
            ids.iter().flat_map(|id| [id.clone(), id.to_lowercase(), id.to_uppercase()]).collect();
        let spellings: Vec<String> = spellings.into_iter().collect();
        let sessions = ErasedSessions { ids: &spellings, apps, received_before };
        self.erasing.erase_rows(Selection::Sessions(sessions), None).await?;
        Ok(())
    }

    async fn erase_reports(&mut self, search: PersonReports<'_>) -> Result<()> {
        loop {
            let (before, limit) = (self.received_before, self.erasing.page_entries());
            let mut tx = self.erasing.begin_search().await?;
            let found = reports::list_person_reports(&mut tx, search, before, limit).await?;
            drop(tx);
            if !self.erasing.erase_reports(found).await? {
                return Ok(());
            }
        }
    }
}
