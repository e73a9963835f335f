//! The part of captures in transactions of the store.

use super::{Capture, CaptureFile, list, wake};
use crate::keys::CaptureKeys;
use crate::pages::capture_path;
use time::{Date, OffsetDateTime};
use unslide_store::persons::{ErasedRows, ErasedSessions};
use unslide_store::queries::session::{MOST_OF_KIND, ShownSessionEvent, TimelineEvent, TimelinePage};
use unslide_store::sql::to_row32;
use unslide_store::{
    ArrivedSymbols, FeatureFile, HookFuture, MissedSymbols, Store, StoreHook, SymbolPosition, SymbolWaits,
    TenantTx, Uuid, segments,
};

/// Wakes captures, deletes those that are over or of a person, and lists their files and their place in a session.
pub const CAPTURE_HOOK: StoreHook = StoreHook {
    symbol_waits: Some(SymbolWaits { wake: wake_captures, list_missed: list_missed_symbols }),
    expire: Some(expire),
    files: Some(files),
    session_events: Some(session_events),
    erase_sessions: Some(erase_sessions),
    ..StoreHook::new(crate::NAME)
};

fn wake_captures<'t>(tx: &'t mut TenantTx, symbols: ArrivedSymbols<'t>) -> HookFuture<'t, u64> {
    Box::pin(wake::wake(tx, symbols.arrived, symbols.is_system, symbols.limit))
}

fn list_missed_symbols<'s>(
    store: &'s Store,
    after: SymbolPosition<'s>,
) -> HookFuture<'s, Vec<MissedSymbols>> {
    Box::pin(async move {
        Ok(sqlx::query_as!(
            MissedSymbols,
            r#"SELECT owner AS "owner!", debug_id AS "debug_id!", generation AS "generation!", waits AS "waits!"
               FROM unslide_capture_waits_missed($1, $2, $3)"#,
            after.owner,
            after.debug_id,
            to_row32(after.limit)
        )
        .fetch_all(store.pool())
        .await?)
    })
}

fn expire(tx: &mut TenantTx, before: Date, limit: u32) -> HookFuture<'_, u64> {
    Box::pin(async move {
        let expired = list::expire(tx, before, limit).await?;
        let tenant = tx.tenant()?;
        let keys: Vec<String> = expired.iter().flat_map(|capture| capture.object_keys(&tenant)).collect();
        segments::condemn_objects(tx, &keys).await?;
        Ok(expired.len() as u64)
    })
}

/// Deletes the captures of sessions, and condemns their files.
fn erase_sessions<'t>(tx: &'t mut TenantTx, sessions: ErasedSessions<'t>) -> HookFuture<'t, Vec<ErasedRows>> {
    Box::pin(async move {
        let erased = list::erase_sessions(tx, sessions).await?;
        let tenant = tx.tenant()?;
        let keys: Vec<String> = erased.iter().flat_map(|capture| capture.object_keys(&tenant)).collect();
        segments::condemn_objects(tx, &keys).await?;
        Ok(vec![ErasedRows { table: "captures", rows: erased.len() as u64 }])
    })
}

fn files(tx: &mut TenantTx) -> HookFuture<'_, Vec<FeatureFile>> {
    Box::pin(async move {
        let captures = list::all(tx).await?;
        let tenant = tx.tenant()?;
        Ok(captures
            .iter()
            .flat_map(|capture| files_of(capture, &CaptureKeys::new(&tenant, capture.id)))
            .collect())
    })
}

fn files_of(capture: &Capture, keys: &CaptureKeys) -> Vec<FeatureFile> {
    let needed = |what: &str| Some(format!("{what} of capture {}", capture.id));
    // Some of its parts may be left out.
    let is_sent = |name: &str| capture.files.iter().any(|file: &CaptureFile| file.name == name);
    let parts = capture.form.list_parts().iter().filter(|part| is_sent(part.name));
    let parts =
        parts.map(|part| FeatureFile { key: keys.part(part.name).to_string(), needed_as: needed("a file") });
    let analyses = capture.runs().map(|run| FeatureFile {
        key: keys.analysis(run).to_string(),
        needed_as: needed("the analysis").filter(|_| capture.answer == Some(run)),
    });
    parts.chain(analyses).collect()
}

struct SessionRow {
    id: Uuid,
    received_at: OffsetDateTime,
    version: String,
    kind: String,
}

fn session_events<'t>(tx: &'t mut TenantTx, page: TimelinePage<'t>) -> HookFuture<'t, Vec<TimelineEvent>> {
    Box::pin(async move {
        let after = page.after;
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query_as!(
            SessionRow,
            "SELECT c.id, c.received_at, c.version, c.kind
             FROM (SELECT id, received_at, version, kind FROM captures
                   WHERE tenant = $1 AND app = $2 AND session_id = $3
                   ORDER BY received_at DESC, id DESC LIMIT $4) c
             WHERE $5::timestamptz IS NULL OR (c.received_at, 'capture', c.id::text, 0) > ($5, $6::text, $7::text, $8::integer)
             ORDER BY c.received_at, c.id::text LIMIT $9",
            tenant,
            page.app,
            page.session,
            MOST_OF_KIND,
            after.map(|(at, ..)| at),
            after.map(|(_, kind, ..)| kind),
            after.map(|(_, _, id, _)| id),
            after.map(|(.., variant)| to_row32(variant)),
            i64::from(page.limit)
        );
        let rows = rows.fetch_all(connection).await?;
        Ok(rows.into_iter().map(session_event).collect())
    })
}

fn session_event(row: SessionRow) -> TimelineEvent {
    let SessionRow { id, received_at, version, kind } = row;
    TimelineEvent {
        at: received_at,
        kind: "capture".into(),
        id: id.to_string(),
        variant: 0,
        version,
        shown: Some(ShownSessionEvent {
            text: format!("A capture: {}", kind.replace('_', " ")),
            detail: String::new(),
            path: Some(capture_path(id)),
        }),
        detail: Some(kind),
        title: None,
        judgement: None,
        figures: Vec::new(),
    }
}
