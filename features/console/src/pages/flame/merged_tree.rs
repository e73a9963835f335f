//! Call trees of the newest reports of a group, merged within limits of reports, bytes and memory.

use crate::prelude::*;
use unslide_api::feature::operation::{Reservation, reserve_bytes};
use unslide_api::feature::site::stored_body::{self, StoredBody};
use unslide_api::feature::site::{load_listed, load_profile};
use unslide_calltree::{CallTree, MOST_REPORT_NODES, report_tree};
use unslide_store::queries::groups::GroupCounts;
use unslide_store::queries::reports::{self, ReportFilter};

/// Maximum number of the newest reports of a group, or of a version of it, that are merged.
const MOST_REPORTS: u32 = 50;
/// Reports that are read with the same statements.
const REPORTS_AT_ONCE: usize = 10;
/// Bytes of reports after which no further ones are read for one page.
const MOST_BYTES: usize = 64 << 20;

/// The merged trees of a group's newest reports.
pub(super) struct MergedTree {
    pub(super) tree: CallTree,
    pub(super) version: Option<String>,
    /// Number of reports with trees in it, and of those that were read.
    pub(super) reports: usize,
    looked_at: usize,
    /// True if there are more reports.
    more: bool,
    skipped: u64,
    /// The reservation of the tree.
    reservation: Reservation,
}

/// Loads the newest reports of a group, or of a version of it, and merges their trees on the CPU pool.
pub(super) async fn load_merged_tree(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    group: &GroupCounts,
    version: Option<String>,
) -> Result<MergedTree, Problem> {
    // No index covers a version alone, so the filter has the app, too.
    let filter = ReportFilter {
        app: Some(group.group.app.clone()),
        group: Some(group.group.id),
        version: version.clone(),
        ..ReportFilter::default()
    };
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let rows = reports::list_reports(&mut tx, &filter, None, MOST_REPORTS).await?;
    tx.rollback();
    let mut merged = MergedTree {
        tree: CallTree::with_node_limit("samples", MOST_REPORT_NODES),
        version,
        reports: 0,
        looked_at: 0,
        more: rows.next.is_some(),
        skipped: 0,
        reservation: reserve_bytes(&symbolication.capacity.permits, access.tenant(), 0)?,
    };
    let mut bytes = 0;
    for some in rows.reports.chunks(REPORTS_AT_ONCE) {
        if bytes > MOST_BYTES {
            merged.more = true;
            return Ok(merged);
        }
        let bodies = load_listed(symbolication, access, some).await?;
        bytes += bodies.iter().map(|body| body.json.len()).sum::<usize>();
        let work = move || {
            for body in bodies {
                merged.merge_report(body)?;
            }
            Ok::<_, Problem>(merged)
        };
        merged = symbolication.capacity.cpu.run_for(access.tenant(), work).await??;
    }
    Ok(merged)
}

impl MergedTree {
    /// Merges the tree of a report if it was sampled.
    fn merge_report(&mut self, body: StoredBody) -> Result<(), Problem> {
        let StoredBody { json, mut reservation, .. } = body;
        let report = stored_body::read_report(&json)?;
        self.looked_at += 1;
        let Some(profile) = load_profile(&report, &mut reservation)? else { return Ok(()) };
        let found = report_tree(&report, &profile);
        // The merged tree is no larger than both together.
        let most = self.tree.memory_bytes().saturating_add(found.tree.memory_bytes());
        self.reservation.reserve_more(most.saturating_sub(self.reservation.bytes()))?;
        self.tree.merge(&found.tree);
        self.reports += 1;
        self.skipped = self.skipped.saturating_add(found.skipped);
        Ok(())
    }

    pub(super) fn left_out(&self) -> u64 {
        self.skipped.saturating_add(self.tree.cut_frames())
    }

    /// Describes the reports behind the picture.
    pub(super) fn describe_facts(&self) -> String {
        let version = self.version.as_ref().map_or_else(String::new, |version| format!(" of {version}"));
        let newest = if self.more { "the newest " } else { "" };
        let looked_at = counted(self.looked_at, "report", "reports");
        let reports = if self.reports == self.looked_at {
            format!("{newest}{looked_at}")
        } else {
            format!("{} of {newest}{looked_at}", self.reports)
        };
        format!("{} from {reports}{version}", super::format_sample_count(&self.tree))
    }
}
