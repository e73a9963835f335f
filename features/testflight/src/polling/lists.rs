//! Reads the lists of submissions.

use super::Poller;
use super::failure::TurnFailure;
use crate::apple::{AppleError, AppleSession, ListStart};
use crate::store::{self, InboxApp};
use time::Duration;
use unslide_model::TenantId;

/// The most pages of one app that a turn reads.
const MAX_PAGES: usize = 50;
/// How long Apple keeps a crash log: older submissions are not taken.
const LOG_LIFETIME: Duration = Duration::days(120);

impl Poller {
    /// Looks up Apple's ids of the apps that have none yet.
    pub(super) async fn look_apps_up(
        &self,
        tenant: &TenantId,
        session: &mut AppleSession<'_>,
        apps: &mut [InboxApp],
    ) -> Result<(), TurnFailure> {
        let unknown = apps.iter().filter(|app| app.apple_id.is_none()).map(|app| app.app.clone());
        let unknown: Vec<String> = unknown.collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let found = session.find_apps(&unknown).await?;
        let mut tx = self.store().tenant(tenant).await?;
        for (app, apple_id) in &found {
            store::set_apple_id(&mut tx, app, apple_id).await?;
            for known in apps.iter_mut().filter(|known| known.app == *app) {
                known.apple_id = Some(apple_id.clone());
            }
        }
        tx.commit().await?;
        Ok(())
    }

    /// Reads the list of an app, from the newest submission to a page that is known. Returns the failure that concerns this app
    /// alone, if there is one.
    ///
    /// A list that was not read to its end is read as a whole the next time: the first page would hide what is missing.
    pub(super) async fn read_list(
        &self,
        tenant: &TenantId,
        session: &mut AppleSession<'_>,
        app: &InboxApp,
    ) -> Result<Option<TurnFailure>, TurnFailure> {
        let Some(apple_id) = &app.apple_id else {
            return Ok(Some(TurnFailure::UnknownApp(app.app.clone())));
        };
        self.set_reading(tenant, app, true).await?;
        let oldest = self.clock().now() - LOG_LIFETIME;
        let mut reads_all = app.is_reading;
        let mut has_begun_again = false;
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let start = next.as_deref().map_or(ListStart::Newest(apple_id), ListStart::Next);
            let page = match session.list_submissions(start).await {
                Ok(page) => page,
                // Cursors expire.
                Err(AppleError::Request { .. }) if next.is_some() && !has_begun_again => {
                    (reads_all, has_begun_again, next) = (true, true, None);
                    continue;
                }
                Err(error @ (AppleError::Forbidden(_) | AppleError::NotFound { .. })) => {
                    return Ok(Some(TurnFailure::App { app: app.app.clone(), error }));
                }
                Err(error) => return Err(error.into()),
            };
            let mut recent = page.submissions;
            let listed = recent.len();
            recent.retain(|one| one.submitted_at.is_none_or(|at| at >= oldest));
            let mut tx = self.store().tenant(tenant).await?;
            let added = store::add_submissions(&mut tx, &app.app, &recent).await?;
            tx.commit().await?;
            next = page.next;
            if next.is_none() || recent.len() < listed || (added == 0 && !reads_all) {
                break;
            }
            check_rate(session)?;
        }
        self.set_reading(tenant, app, false).await?;
        check_rate(session)?;
        Ok(None)
    }

    async fn set_reading(
        &self,
        tenant: &TenantId,
        app: &InboxApp,
        is_reading: bool,
    ) -> Result<(), TurnFailure> {
        let mut tx = self.store().tenant(tenant).await?;
        store::set_reading(&mut tx, &app.app, is_reading).await?;
        Ok(tx.commit().await?)
    }
}

/// Ends a turn before the last requests of the hour.
pub(super) fn check_rate(session: &AppleSession<'_>) -> Result<(), TurnFailure> {
    if session.is_used_up() { Err(TurnFailure::RateUsedUp) } else { Ok(()) }
}
