//! The part of captures in transactions of the store.

use super::{CaptureFile, CaptureId, list_runs, wake};
use crate::capture::CaptureForm;
use crate::keys::CaptureKeys;
use crate::pages::capture_path;
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::queries::session::{MOST_OF_KIND, ShownSessionEvent, TimelineEvent, TimelinePage};
use unslide_store::sql::to_row32;
use unslide_store::tables::{KeyColumn, OwnedTable, RowAge, RowFiles};
use unslide_store::{
    ArrivedSymbols, FeatureFile, HookFuture, MissedSymbols, Result, Store, StoreError, StoreHook,
    SymbolPosition, SymbolWaits, TenantTx,
};

/// Lists the place of captures in a session.
pub const CAPTURE_HOOK: StoreHook =
    StoreHook { tables: OWNED_TABLES, session_events: Some(session_events), ..StoreHook::new(crate::NAME) };

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable {
        key: &[KeyColumn::Value("id")],
        app: Some("app"),
        received_at: Some("received_at"),
        session: Some("session_id"),
        age: RowAge::Retention,
        files: Some(CAPTURE_FILES),
        counted_bytes: Some("size"),
        ..OwnedTable::new("captures")
    },
    OwnedTable {
        symbol_waits: Some(SymbolWaits { wake: wake_captures, list_missed: list_missed_symbols }),
        ..OwnedTable::new("capture_waits")
    },
];

/// The files of a capture and its analyses.
const CAPTURE_FILES: RowFiles =
    RowFiles { columns: &["id", "form", "files", "run", "answer"], list: list_files };

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

/// The columns that say which files a capture has.
#[derive(Deserialize)]
struct FileRow {
    id: CaptureId,
    form: CaptureForm,
    files: Vec<CaptureFile>,
    run: u32,
    answer: Option<u32>,
}

fn list_files(tenant: &TenantId, row: Value) -> Result<Vec<FeatureFile>> {
    let row: FileRow = serde_json::from_value(row).map_err(|e| StoreError::corrupt("captures", e))?;
    let FileRow { id, form, files, run, answer } = row;
    let keys = CaptureKeys::new(tenant, id);
    let needed = |what: &str| Some(format!("{what} of capture {id}"));
    // Some of its parts may be left out.
    let is_sent = |name: &str| files.iter().any(|file| file.name == name);
    let parts = form.list_parts().iter().map(|part| FeatureFile {
        key: keys.part(part.name).to_string(),
        needed_as: needed("a file").filter(|_| is_sent(part.name)),
    });
    let analyses = list_runs(run, answer).map(|run| FeatureFile {
        key: keys.analysis(run).to_string(),
        needed_as: needed("the analysis").filter(|_| answer == Some(run)),
    });
    Ok(parts.chain(analyses).collect())
}

struct SessionRow {
    id: CaptureId,
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
            r#"SELECT c.id AS "id: CaptureId", c.received_at, c.version, c.kind
             FROM (SELECT id, received_at, version, kind FROM captures
                   WHERE tenant = $1 AND app = $2 AND session_id = $3
                   ORDER BY received_at DESC, id DESC LIMIT $4) c
             WHERE $5::timestamptz IS NULL OR (c.received_at, 'capture', c.id::text, 0) > ($5, $6::text, $7::text, $8::integer)
             ORDER BY c.received_at, c.id::text LIMIT $9"#,
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
