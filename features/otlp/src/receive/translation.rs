//! Translates the records of a request into reports.

use super::request_form::RequestForm;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use unslide_api::feature::app_intake::{AppSender, TranslateBody, TranslationScope};
use unslide_api::feature::intake::ReadBudget;
use unslide_api::problem::{Kind, Problem};
use unslide_otlp_formats::{
    CrashDocument, FoundCrash, TelemetryError, complete_report, find_crash, read_records, write_batch,
};
use unslide_report::Report;

/// Sentences about records of a request that are kept for its answer.
const SENTENCES_LIMIT: usize = 10;

/// The outcome of the records of a request.
#[derive(Debug, Default)]
pub struct Translation {
    /// Records that are no crash.
    pub others: usize,
    /// Crashes that cannot be read.
    pub unreadable: usize,
    /// Why, of the first of them.
    pub problems: Vec<String>,
    /// Warnings for the sender about crashes that became reports.
    pub warnings: Vec<String>,
    /// The place of the record of each report.
    pub places: Vec<usize>,
}

impl Translation {
    /// Returns the function that translates the body of a request, and the place of its outcome.
    pub fn for_request(form: RequestForm) -> (TranslateBody, Arc<Mutex<Translation>>) {
        let outcome = Arc::new(Mutex::new(Translation::default()));
        let shared = outcome.clone();
        let translate: TranslateBody = Box::new(move |sender, scope, request, budget| {
            let (batch, translation) = translate_request(form, sender, scope, request, budget)?;
            *shared.lock() = translation;
            Ok(batch)
        });
        (translate, outcome)
    }

    fn add_unreadable(&mut self, index: usize, problem: &str) {
        self.unreadable += 1;
        if self.problems.len() < SENTENCES_LIMIT {
            self.problems.push(format!("record {index}: {problem}"));
        }
    }
}

/// Translates a request into a JSON array of reports.
fn translate_request(
    form: RequestForm,
    sender: AppSender<'_>,
    scope: TranslationScope<'_>,
    request: &Bytes,
    budget: &mut ReadBudget,
) -> Result<(Bytes, Translation), Problem> {
    let mut translation = Translation::default();
    let (mut reports, mut failure) = (Vec::new(), None);
    // Bytes that the reports may still have: their array begins and ends with one more.
    let mut left = scope.bounds.unpacked.saturating_sub(2);
    let read = read_records(request, form.encoding, form.signal, &mut |record| {
        if failure.is_some() {
            return;
        }
        let document = match find_crash(record) {
            FoundCrash::NoCrash => {
                translation.others += 1;
                return;
            }
            FoundCrash::Unreadable(problem) => {
                translation.add_unreadable(record.index, &problem);
                return;
            }
            FoundCrash::Document(document) => *document,
        };
        if reports.len() == scope.bounds.reports {
            let problem = format!("the request has more than {} crashes; send fewer at once", reports.len());
            translation.add_unreadable(record.index, &problem);
            return;
        }
        let warnings = document.facts.notes.clone();
        match write_report(document, sender, scope, left) {
            Ok(report) => {
                left = left.saturating_sub(report.len() as u64 + 1);
                // The report is a copy.
                if let Err(exhausted) = budget.reserved.reserve_more(report.len() as u64) {
                    failure = Some(Problem::from(exhausted));
                    return;
                }
                reports.push(report);
                translation.places.push(record.index);
                let room = SENTENCES_LIMIT.saturating_sub(translation.warnings.len());
                let warnings = warnings.iter().map(|warning| format!("record {}: {warning}", record.index));
                translation.warnings.extend(warnings.take(room));
            }
            Err(problem) => translation.add_unreadable(record.index, &problem),
        }
    });
    read.map_err(|error| match error {
        TelemetryError::Malformed(_) => Problem::new(Kind::InvalidBody, error.to_string()),
        TelemetryError::TooManyRecords => Problem::new(Kind::TooLarge, error.to_string()),
    })?;
    match failure {
        Some(problem) => Err(problem),
        None => Ok((write_batch(&reports).into(), translation)),
    }
}

/// Writes a report in KSCrash's form with the facts of its record, of at most `left` bytes.
fn write_report(
    mut document: CrashDocument,
    sender: AppSender<'_>,
    scope: TranslationScope<'_>,
    left: u64,
) -> Result<Vec<u8>, String> {
    let limits = &scope.bounds.report;
    if document.facts.app.is_none()
        && let [app] = sender.apps
        && !app.contains('*')
    {
        // A key of one app says which one it is.
        document.facts.app = Some(app.clone());
    }
    let written = scope
        .readers
        .open(&document.bytes, limits)
        .and_then(|opened| complete_report(opened.json(), &document.facts))
        .map_err(|error| error.to_string())?;
    Report::read_event(&written, limits).map_err(|error| error.to_string())?;
    if written.len() as u64 > left {
        return Err(format!(
            "the crash has {} bytes as a report, and all reports of a request {} at most; send it in another request",
            written.len(),
            scope.bounds.unpacked
        ));
    }
    Ok(written)
}
