//! Lists as files: a whole list in one answer, as NDJSON or CSV, read and written a page at a time.
//!
//! An export asks its list for one page after the other. So it has the list's filters, rights and limits, and it ends
//! with the key. Between two pages it holds no connection to the database. Only a whole answer ends regularly: where a
//! page fails, or the list is longer than an answer may be, the transfer breaks off.

mod documented;
mod format;
mod layer;
mod rows;

pub use crate::list_tables::ExportTable;
pub use documented::document_exports;
pub use format::ExportFormat;
use layer::OperationPages;
pub use layer::export;

use crate::http::problem::{Kind, Problem};
use crate::limits::answers;
use crate::limits::permits::Reservation;
use crate::state::Api;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::header;
use std::io;
use std::time::Duration;
use unslide_model::TenantId;

/// Entries of a page.
pub const PAGE: u32 = 50;
/// Entries of an answer.
pub const MOST_ENTRIES: u64 = 1_000_000;
/// Bytes of a page as the list answers it; its rows have no more.
const PAGE_BYTES: usize = 8 << 20;
/// How often a page is asked for that can't be answered for now, and the time between.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);

/// What is wanted of a list.
#[derive(Clone, Copy, Debug)]
struct ExportRequest {
    /// The form of the answer.
    format: ExportFormat,
    /// The list.
    table: &'static ExportTable,
    /// The client wants no more entries; the whole list where `None`.
    limit: Option<u64>,
}

/// An export under way.
struct Running {
    api: Api,
    tenant: TenantId,
    wanted: ExportRequest,
    pages: OperationPages,
    written: u64,
    /// Bytes of the page that is being written.
    _reservation: Reservation,
}

/// Where an export goes on.
enum Position {
    Rows(Bytes, Option<String>),
    Page(String),
    End,
}

impl ExportRequest {
    /// Answers the list from the page at `cursor` on. `first` is that page.
    ///
    /// # Errors
    /// Where the first page can't be written.
    async fn answer(
        self,
        api: &Api,
        tenant: &TenantId,
        first: Bytes,
        pages: OperationPages,
    ) -> Result<Response, Problem> {
        let reservation = answers::reserve(&api.permits, tenant, PAGE_BYTES as u64)?;
        let mut running = Running {
            api: api.clone(),
            tenant: tenant.clone(),
            wanted: self,
            pages,
            written: 0,
            _reservation: reservation,
        };
        let (rows, next) = running.rows(first).await?;
        let position = Position::Rows(rows, next);
        let body = stream::try_unfold((running, position), async |(mut running, position)| {
            let (rows, next) = match position {
                Position::End => return Ok(None),
                Position::Rows(rows, next) => (rows, next),
                Position::Page(cursor) => running.next(cursor).await.map_err(|problem| cut_off(&problem))?,
            };
            let position = next.map_or(Position::End, Position::Page);
            Ok::<_, io::Error>(Some((rows, (running, position))))
        });
        let named = [
            (header::CONTENT_TYPE, self.format.media_type().to_owned()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", self.file_name())),
        ];
        Ok((named, Body::from_stream(body)).into_response())
    }

    fn file_name(&self) -> String {
        format!("{}.{}", self.table.name, self.format.extension())
    }
}

/// Breaks the transfer off, so that the client does not take what it has for the whole.
fn cut_off(problem: &Problem) -> io::Error {
    problem.log_fault("");
    tracing::info!(problem = problem.kind().slug(), detail = problem.detail(), "an export was cut off");
    io::Error::other("the export was cut off")
}

impl Running {
    /// The rows of the page at a cursor, and the cursor of the next one.
    async fn next(&mut self, cursor: String) -> Result<(Bytes, Option<String>), Problem> {
        if self.written >= MOST_ENTRIES {
            let detail = format!("the list has more than {MOST_ENTRIES} entries");
            return Err(Problem::new(Kind::LimitReached, detail));
        }
        let mut attempts = 1;
        let page = loop {
            match self.pages.page(&cursor).await {
                Err(problem) if problem.kind().is_retriable() && attempts < ATTEMPTS => attempts += 1,
                page => break page?,
            }
            tokio::time::sleep(PAUSE).await;
        };
        self.rows(page).await
    }

    async fn rows(&mut self, page: Bytes) -> Result<(Bytes, Option<String>), Problem> {
        if page.len() > PAGE_BYTES {
            return Err(Problem::internal(format!("a page of an export has {} bytes", page.len())));
        }
        let (wanted, written) = (self.wanted, self.written);
        let left = wanted.limit.map(|limit| limit - written);
        let of_page =
            self.api.cpu.run_for(&self.tenant, move || rows::write(wanted, &page, written == 0, left));
        let of_page = of_page.await?.map_err(Problem::internal)?;
        self.written += of_page.entries;
        let is_full = wanted.limit.is_some_and(|limit| self.written >= limit);
        Ok((of_page.bytes, of_page.next_cursor.filter(|_| !is_full)))
    }
}
