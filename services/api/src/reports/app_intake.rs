//! Reports of apps with keys that are public, for features that translate another protocol. One feature receives them, with its keys,
//! rates and overflow; it registers itself when the api starts.

use super::ingest::{Bounds, ReadBudget};
use super::symbolication::Symbolication;
use crate::problem::Problem;
use crate::requests::broker::Broker;
use crate::requests::keys::Keys;
use crate::requests::refused::RefusedElement;
use axum::body::{Body, Bytes};
use http::request::Parts;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use unslide_model::TenantId;
use unslide_report::reader::ReportReaders;

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub struct AppSender<'s> {
    pub tenant: &'s TenantId,
    /// The apps that the key may send reports of: bundle identifiers, or their beginnings and `*`.
    pub apps: &'s [String],
}

/// Readers and bounds of the reports of a request.
#[derive(Clone, Copy, Debug)]
pub struct TranslationScope<'s> {
    pub readers: &'s ReportReaders,
    /// Bounds of all reports together, and of each.
    pub bounds: &'s Bounds,
}

/// Translates the unpacked body of a request into a JSON array of reports within the bounds, on the CPU pool.
pub type TranslateBody = Box<
    dyn FnOnce(AppSender<'_>, TranslationScope<'_>, &Bytes, &mut ReadBudget) -> Result<Bytes, Problem> + Send,
>;

/// The parts of the api that a request of an app needs.
#[derive(Clone, Copy)]
pub struct IntakeServices<'s> {
    pub keys: &'s Keys,
    pub symbolication: &'s Symbolication,
    pub broker: &'s Arc<Broker>,
}

/// A request of an app.
pub struct AppRequest<'r> {
    /// The text of the key, as the path of the URL has it.
    pub key: &'r str,
    pub parts: &'r Parts,
    pub body: Body,
    pub translate: TranslateBody,
}

/// The outcome of a request after the broker has its records.
#[derive(Debug)]
pub struct AppReceipt {
    pub tenant: TenantId,
    /// The number of accepted reports.
    pub accepted: usize,
    pub refused: Vec<RefusedElement>,
}

/// The future of [`AppIntake::receive_request`].
pub type ReceiptFuture<'r> = Pin<Box<dyn Future<Output = Result<AppReceipt, Problem>> + Send + 'r>>;

/// Receives the reports of apps.
pub trait AppIntake: Send + Sync {
    /// Checks the key and the rates of a request, receives its body, has it translated, and sends its reports to the broker.
    fn receive_request<'r>(
        &'r self,
        services: IntakeServices<'r>,
        request: AppRequest<'r>,
    ) -> ReceiptFuture<'r>;
}

/// The place in which the feature that receives reports of apps registers itself.
#[derive(Default)]
pub struct AppIntakeSlot(OnceLock<Arc<dyn AppIntake>>);

impl AppIntakeSlot {
    /// Registers the feature. A second one in one process is ignored.
    pub fn register(&self, intake: Arc<dyn AppIntake>) {
        let _ = self.0.set(intake);
    }

    /// Returns the feature, if there is one.
    #[must_use]
    pub fn find(&self) -> Option<Arc<dyn AppIntake>> {
        self.0.get().cloned()
    }
}
