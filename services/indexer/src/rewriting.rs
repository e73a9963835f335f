//! The rewriters of features, which change reports before anything of them is stored.

use crate::feature::{ReportRewriting, RewriteReports};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use unslide_model::TenantId;
use unslide_store::{Store, StoreError};

/// How long what was loaded is used for records that are read. A change of a tenant's rules holds after this time.
const LOADED_PERIOD: Duration = Duration::from_secs(5);
/// Number of counts of a report that are stored by name. The rest is counted together.
const NAMED_COUNTS_LIMIT: usize = 30;
/// The name of the rest.
const OTHER_COUNTS: &str = "others";

/// Numbers of changes by the feature and by its words for them.
pub type ChangeCounts = BTreeMap<&'static str, BTreeMap<String, u64>>;

/// The rewriters of an indexer. Its readers share them.
pub struct ReportRewriters {
    features: Vec<ReportRewriting>,
    loaded: Mutex<Option<(i64, LoadedRewriters)>>,
}

/// Rewriters as they were loaded. Cheap to clone.
#[derive(Clone, Default)]
pub struct LoadedRewriters(Arc<[(&'static str, Arc<dyn RewriteReports>)]>);

/// A document after all rewriters.
pub struct RewrittenDocument {
    pub bytes: Vec<u8>,
    pub changes: ChangeCounts,
}

impl ReportRewriters {
    /// Makes the rewriters of features, which are loaded before they are used.
    pub fn new(features: impl IntoIterator<Item = ReportRewriting>) -> ReportRewriters {
        ReportRewriters { features: features.into_iter().collect(), loaded: Mutex::new(None) }
    }

    /// Returns rewriters that were loaded a short time ago.
    ///
    /// # Errors
    /// Returns the failure of the store. Nothing may be stored then.
    pub async fn load_rewriters(&self, store: &Store) -> Result<LoadedRewriters, StoreError> {
        if self.features.is_empty() {
            return Ok(LoadedRewriters::default());
        }
        let mut loaded = self.loaded.lock().await;
        let now = store.clock().monotonic_micros();
        let period = i64::try_from(LOADED_PERIOD.as_micros()).unwrap_or(i64::MAX);
        if let Some((_, current)) = loaded.as_ref().filter(|(at, _)| now - at < period) {
            return Ok(current.clone());
        }
        let earlier = loaded.as_ref().map(|(_, earlier)| earlier.clone()).unwrap_or_default();
        let mut current = Vec::with_capacity(self.features.len());
        for feature in &self.features {
            let known = earlier.0.iter().find(|(name, _)| *name == feature.name);
            let known = known.map(|(_, known)| Arc::clone(known));
            current.push((feature.name, (feature.load)(store, known).await?));
        }
        let current = LoadedRewriters(current.into());
        *loaded = Some((now, current.clone()));
        Ok(current)
    }
}

impl LoadedRewriters {
    /// Makes the rewriters of one feature.
    pub fn single(name: &'static str, rewriter: Arc<dyn RewriteReports>) -> LoadedRewriters {
        LoadedRewriters(Arc::new([(name, rewriter)]))
    }

    /// Returns true if no feature rewrites anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the document of a tenant's app after all rewriters, or `None` if none changes it.
    ///
    /// # Errors
    /// Returns why a rewriter cannot read the document. It must not be stored then.
    pub fn rewrite_document(
        &self,
        tenant: &TenantId,
        app: &str,
        document: &[u8],
    ) -> Result<Option<RewrittenDocument>, String> {
        let mut rewritten: Option<RewrittenDocument> = None;
        for (name, rewriter) in self.0.iter() {
            let current = rewritten.as_ref().map_or(document, |rewritten| rewritten.bytes.as_slice());
            let Some(found) = rewriter.rewrite_report(tenant, app, current)? else { continue };
            let mut changes = rewritten.map(|earlier| earlier.changes).unwrap_or_default();
            changes.insert(name, limit_counts(found.changes));
            rewritten = Some(RewrittenDocument { bytes: found.document, changes });
        }
        Ok(rewritten)
    }
}

/// Adds the counts together that are too many.
fn limit_counts(counts: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut limited = BTreeMap::new();
    for (name, count) in counts {
        let name = if limited.len() < NAMED_COUNTS_LIMIT { name } else { OTHER_COUNTS.to_owned() };
        *limited.entry(name).or_default() += count;
    }
    limited
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::feature::RewrittenReport;
    use crate::records::Reading;
    use crate::records::enriched::read_report;
    use crate::records::enriched::tests::{ENRICHED, reading, record};
    use unslide_proto::{body, headers};
    use unslide_stream::Headers;

    /// Replaces the word `quiet`, and fails for `refuse`.
    pub struct Shout;

    impl RewriteReports for Shout {
        fn rewrite_report(
            &self,
            tenant: &TenantId,
            app: &str,
            document: &[u8],
        ) -> Result<Option<RewrittenReport>, String> {
            assert_eq!((tenant.as_str(), app), ("acme", "com.acme.shop"));
            let text = String::from_utf8_lossy(document);
            if text.contains("refuse") {
                return Err("no".to_owned());
            }
            let changes = [("words".to_owned(), 1)].into();
            let document = text.replace("quiet", "LOUD").into_bytes();
            Ok(text.contains("quiet").then_some(RewrittenReport { document, changes }))
        }
    }

    #[test]
    fn what_is_stored_of_a_report_is_what_the_rewriters_leave_and_its_identity_is_that_of_its_bytes() {
        let shout: Arc<dyn RewriteReports> = Arc::new(Shout);
        let loud = Reading { rewriters: LoadedRewriters([("shout", shout)].into()), ..reading() };
        let of_reason = |reason: &str| {
            let value = ENRICHED.replace("\"mach\"", &format!("\"mach\",\"reason\":\"{reason}\""));
            record(&value, Headers::new().with(headers::TENANT, "acme"))
        };
        let plain = read_report(&of_reason("quiet"), &reading()).unwrap().arrival;
        let read = read_report(&of_reason("quiet"), &loud).unwrap().arrival;
        assert_eq!((read.report_id, read.content_hash), (plain.report_id, plain.content_hash));
        assert_eq!(read.facts.reason.as_deref(), Some("LOUD"));
        assert_eq!(read.facts.context["changes"], serde_json::json!({"shout": {"words": 1}}));
        let stored = body::decompress_report(&read.body, 1 << 20).unwrap();
        assert!(!String::from_utf8(stored).unwrap().contains("quiet"));
        let same = read_report(&of_reason("silent"), &loud).unwrap();
        assert_eq!(same, read_report(&of_reason("silent"), &reading()).unwrap());
        assert_eq!(read_report(&of_reason("refuse"), &loud).unwrap_err().reason, "not_rewritten");
    }

    #[test]
    fn counts_that_are_too_many_are_added_together() {
        let counts = (0..100).map(|n| (format!("rule{n:03}"), 2)).collect();
        let limited = limit_counts(counts);
        assert_eq!((limited.len(), limited[OTHER_COUNTS]), (NAMED_COUNTS_LIMIT + 1, 140));
    }
}
