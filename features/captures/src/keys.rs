//! Keys of a capture's objects.

use crate::capture::CaptureForm;
use crate::ids::CaptureId;
use unslide_artifacts::keys::{ObjectKey, feature_file};
use unslide_model::TenantId;

/// The folder of captures below a tenant's prefix.
const FOLDER: &str = "captures";

/// Keys of one capture's files and analyses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureKeys {
    tenant: TenantId,
    id: CaptureId,
}

impl CaptureKeys {
    /// Returns the keys of a tenant's capture.
    #[must_use]
    pub fn new(tenant: &TenantId, id: CaptureId) -> CaptureKeys {
        CaptureKeys { tenant: tenant.clone(), id }
    }

    /// Returns the key of a file, by the name of the part.
    #[must_use]
    pub fn part(&self, name: &'static str) -> ObjectKey {
        feature_file(&self.tenant, FOLDER, self.id, name)
    }

    /// Returns the key of an analysis.
    #[must_use]
    pub fn analysis(&self, run: u32) -> ObjectKey {
        feature_file(&self.tenant, FOLDER, self.id, format_args!("analysis-{run}"))
    }

    /// Returns the keys of all files and of these analyses, as texts.
    #[must_use]
    pub fn all(&self, form: &CaptureForm, runs: impl IntoIterator<Item = u32>) -> Vec<String> {
        let parts = form.list_parts().iter().map(|part| self.part(part.name));
        parts.chain(runs.into_iter().map(|run| self.analysis(run))).map(|key| key.to_string()).collect()
    }
}
