//! Lists as files: a whole list in one answer, as NDJSON or CSV, read and written a page at a time.
//!
//! An export asks its list for one page after the other. So it has the list's filters, rights and limits, and it ends
//! with the key. Between two pages it holds no connection to the database. Only a whole answer ends regularly: if a page
//! fails, or the list is longer than an answer may be, the transfer breaks off.

mod documented;
mod format;
mod layer;
mod rows;

use format::ExportFormat;
use layer::OperationPages;
use rows::PageRows;
use std::sync::Arc;
use unslide_api::feature::Capacity;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::header;
use std::io;
use std::time::Duration;
use unslide_api::feature::lists::{ListForms, ListTable, Reservation, reserve_bytes};
use unslide_api::feature::operation::{Kind, Problem};
use unslide_model::TenantId;

/// Lists as files, for the api.
pub const FORMS: ListForms = ListForms {
    answer: |lists, request, next| Box::pin(layer::answer_list(lists, request, next)),
    document: documented::document_exports,
    folder: FOLDER,
    link: "Export CSV",
};

/// The folder of the console with the lists of pages.
const FOLDER: &str = "/console/export";
/// The most entries of an answer.
const MAX_ENTRIES: u64 = 1_000_000;
/// The most bytes of a page as the list answers it; its rows have no more.
const PAGE_BYTES: usize = 8 << 20;
/// How often a page is requested that cannot be answered for now.
const PAGE_ATTEMPTS: u32 = 10;
/// The time between two of these requests.
const PAGE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A request for a list as a file.
#[derive(Clone, Copy, Debug)]
struct ExportRequest {
    /// The form of the answer.
    format: ExportFormat,
    table: &'static ListTable,
    /// The most entries that the client wants; None for the whole list.
    limit: Option<u64>,
}

/// State of an export between two pages.
struct RunningExport {
    capacity: Arc<Capacity>,
    tenant: TenantId,
    request: ExportRequest,
    pages: OperationPages,
    written: u64,
    /// Bytes of the page that is being written.
    _reservation: Reservation,
}

/// The next step of an export.
enum Position {
    /// Sends rows that are written.
    Rows(PageRows),
    /// Reads the page at a cursor.
    Page(String),
    End,
}

impl ExportRequest {
    /// Answers the list from its first page on.
    ///
    /// # Errors
    /// Returns an error if the first page cannot be written.
    async fn into_response(
        self,
        capacity: &Arc<Capacity>,
        tenant: &TenantId,
        first: Bytes,
        pages: OperationPages,
    ) -> Result<Response, Problem> {
        let reservation = reserve_bytes(&capacity.permits, tenant, PAGE_BYTES as u64)?;
        let mut running = RunningExport {
            capacity: capacity.clone(),
            tenant: tenant.clone(),
            request: self,
            pages,
            written: 0,
            _reservation: reservation,
        };
        let position = Position::Rows(running.write_page(first).await?);
        let body = stream::try_unfold((running, position), async |(mut running, position)| {
            let page = match position {
                Position::End => return Ok(None),
                Position::Rows(page) => page,
                Position::Page(cursor) => {
                    running.next_page(&cursor).await.map_err(|problem| cut_off(&problem))?
                }
            };
            let position = page.next_cursor.map_or(Position::End, Position::Page);
            Ok::<_, io::Error>(Some((page.bytes, (running, position))))
        });
        let named = [
            (header::CONTENT_TYPE, self.format.media_type().to_owned()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", self.file_name())),
        ];
        Ok((named, Body::from_stream(body)).into_response())
    }

    fn file_name(&self) -> String {
        format!("{}.{}", self.table.name, self.format.file_extension())
    }
}

/// Breaks the transfer off, so that the client does not take a part for the whole.
fn cut_off(problem: &Problem) -> io::Error {
    problem.log_fault("");
    tracing::info!(problem = problem.kind().slug(), detail = problem.detail(), "an export was cut off");
    io::Error::other("the export was cut off")
}

impl RunningExport {
    /// Reads and writes the page at a cursor.
    async fn next_page(&mut self, cursor: &str) -> Result<PageRows, Problem> {
        if self.written >= MAX_ENTRIES {
            let detail = format!("the list has more than {MAX_ENTRIES} entries");
            return Err(Problem::new(Kind::LimitReached, detail));
        }
        let mut attempts = 1;
        let page = loop {
            match self.pages.read_page(cursor).await {
                Err(problem) if problem.kind().is_retriable() && attempts < PAGE_ATTEMPTS => attempts += 1,
                page => break page?,
            }
            tokio::time::sleep(PAGE_RETRY_INTERVAL).await;
        };
        self.write_page(page).await
    }

    async fn write_page(&mut self, page: Bytes) -> Result<PageRows, Problem> {
        if page.len() > PAGE_BYTES {
            return Err(Problem::internal(format!("a page of an export has {} bytes", page.len())));
        }
        let (request, written) = (self.request, self.written);
        let left = request.limit.map(|limit| limit - written);
        let mut rows = self
            .capacity
            .cpu
            .run_for(&self.tenant, move || rows::write_rows(request, &page, written == 0, left))
            .await?
            .map_err(Problem::internal)?;
        self.written += rows.entries;
        if request.limit.is_some_and(|limit| self.written >= limit) {
            rows.next_cursor = None;
        } else if let Some(time) = &rows.history_unavailable {
            let detail =
                format!("reports that arrived at {time} or before are in ClickHouse, which does not answer");
            return Err(Problem::new(Kind::Unavailable, detail));
        }
        Ok(rows)
    }
}
