//! Data that features add to `unslide demo --traffic`.

use crate::{BoxError, Client};
use serde_json::Value;
use std::pin::Pin;

/// The run of an app that a feature's demo data belongs to.
#[derive(Clone, Copy, Debug)]
pub struct DemoRun<'d> {
    /// The app.
    pub app: &'d str,
    /// The app's version.
    pub version: &'d str,
    /// The id of the run.
    pub session_id: &'d str,
    /// A KSCrash report of the same build.
    pub report: &'d Value,
}

/// A request of a feature's demo. Returns a line that says what was sent.
pub type DemoRequest<'d> = Pin<Box<dyn Future<Output = Result<&'static str, BoxError>> + Send + 'd>>;

/// Sends the demo data of a feature to a running service.
pub type SendDemoData = for<'d> fn(&'d Client, DemoRun<'d>) -> DemoRequest<'d>;
