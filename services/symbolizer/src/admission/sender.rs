//! Finds the tenant of a record and decides whether the record is accepted.

use crate::admission::tenants::{AllowedUse, TenantStatus, Tenants};
use crate::retry_tiers::Tier;
use crate::source_record::{Reason, SourceRecord};
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_model::{Clock, TenantId};
use unslide_proto::headers;
use unslide_proto::topics::TopicNames;
use unslide_stream::Signatures;

/// Tenants, signatures and limits, against which records are checked.
pub struct SenderChecks {
    /// Tenants that are known, with their limits.
    pub tenants: Arc<Tenants>,
    /// Checks that a sender may write reports for a tenant.
    pub signatures: Signatures,
    /// Names of the installation's topics.
    pub topics: TopicNames,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Cost units per second of a tenant that has no limit of its own; 0 means no limit.
    pub tenant_units_per_second: u32,
}

impl SenderChecks {
    /// Returns a tenant's limit in cost units per second over all partitions, or `None` without a limit.
    pub fn tenant_rate(&self, limits: AllowedUse) -> Option<f64> {
        let own = limits.units_per_second;
        let rate = if own == 0 { self.tenant_units_per_second } else { own };
        (rate > 0).then_some(f64::from(rate))
    }
}

/// Decision about a record's tenant.
#[derive(Debug)]
pub enum Admission {
    /// The tenant's reports are processed.
    Known {
        /// The tenant that the record names.
        tenant: TenantId,
        limits: AllowedUse,
    },
    /// The tenant is unknown, and may still become known.
    Early {
        /// The tenant that the record names.
        tenant: TenantId,
    },
    Refused {
        /// The record's tenant, if it has a valid one.
        tenant: Option<TenantId>,
        reason: &'static str,
        detail: String,
    },
    Deleted {
        /// The tenant that the record names.
        tenant: TenantId,
    },
    /// Another cell serves the tenant.
    Moved {
        /// The tenant that the record names.
        tenant: TenantId,
        /// The prefix of the topics of that cell.
        prefix: Arc<str>,
    },
}

/// Decides whether a record is accepted. `check` is false if the record's signature was verified before.
/// `tenants_read` is true if the table of tenants was read to its end since the record was polled.
pub fn admit_record(
    checks: &SenderChecks,
    entry: &SourceRecord<'_>,
    check: bool,
    tenants_read: bool,
) -> Admission {
    let refused = |tenant, reason, detail| Admission::Refused { tenant, reason, detail };
    let tenant = match find_tenant(checks, entry) {
        Ok(tenant) => tenant,
        Err(Nameless { tenant, reason, detail }) => return refused(tenant, reason, detail),
    };
    // The signature is checked before any quota of the tenant is used and before its status is revealed.
    if check && !entry.internal {
        let arrived = entry.arrived_millis.unwrap_or_else(|| checks.clock.now_micros() / 1_000);
        if let Err(wrong) = checks.signatures.check_signature(entry.record, &tenant, arrived) {
            return refused(Some(tenant), wrong.reason, wrong.detail);
        }
    }
    // A tenant that has moved is deleted here at the end.
    if let Some(prefix) = checks.tenants.moved_to(&tenant) {
        return Admission::Moved { tenant, prefix };
    }
    match checks.tenants.status(&tenant) {
        TenantStatus::Active => Admission::Known { limits: checks.tenants.limits(&tenant), tenant },
        TenantStatus::Suspended => {
            let detail = format!("the tenant {tenant} is suspended");
            refused(Some(tenant), "tenant_suspended", detail)
        }
        TenantStatus::Deleted => Admission::Deleted { tenant },
        TenantStatus::Unknown if tenants_read && was_in_every_tier(entry) => {
            let detail = format!("there is no tenant {tenant}");
            refused(Some(tenant), Reason::UnknownTenant.header_value(), detail)
        }
        TenantStatus::Unknown => Admission::Early { tenant },
    }
}

/// Returns the tenant that the record names, whether that tenant exists or not.
pub fn tenant_named(checks: &SenderChecks, entry: &SourceRecord<'_>) -> Option<TenantId> {
    find_tenant(checks, entry).map_or_else(|nameless| nameless.tenant, Some)
}

fn find_tenant(checks: &SenderChecks, entry: &SourceRecord<'_>) -> Result<TenantId, Nameless> {
    let given = entry.record.headers.get(headers::TENANT);
    let parsed = || TenantId::new(std::str::from_utf8(given?).ok()?).ok();
    // The name of a tenant's own topic contains the tenant. Copies carry the tenant that was decided before.
    let owner = checks.topics.tenant_of_input(&entry.record.at.topic).filter(|_| !entry.internal);
    let count = entry.record.headers.count_named(headers::TENANT);
    if count > 1 {
        // A gateway may have checked one of the headers and appended the other, so neither can be trusted.
        return Err(Nameless {
            tenant: owner,
            reason: "ambiguous_tenant",
            detail: format!("the record has {count} headers `{}`, one is needed", headers::TENANT),
        });
    }
    if let Some(owner) = owner {
        return match given {
            Some(name) if parsed().as_ref() != Some(&owner) => Err(Nameless {
                detail: format!(
                    "the header says {:?}, the topic is {owner}'s",
                    String::from_utf8_lossy(name)
                ),
                tenant: Some(owner),
                reason: "tenant_mismatch",
            }),
            _ => Ok(owner),
        };
    }
    match given {
        None => Err(Nameless {
            tenant: None,
            reason: "no_tenant",
            detail: format!("the record has no header `{}`", headers::TENANT),
        }),
        Some(name) => parsed().ok_or_else(|| Nameless {
            tenant: None,
            reason: Reason::UnknownTenant.header_value(),
            detail: format!("{:?} is no tenant's name", String::from_utf8_lossy(name)),
        }),
    }
}

/// Returns true if the record has waited for its tenant in every retry tier. That is more than ten minutes
/// altogether: as long as a relay may be behind. No clock is compared, because the broker's and this host's
/// may differ.
fn was_in_every_tier(entry: &SourceRecord<'_>) -> bool {
    Tier::after_tries(entry.failed_tries(Reason::UnknownTenant).saturating_add(1)).is_none()
}

/// Reads the table of tenants to its end if a record names an unknown tenant. Returns false if that fails:
/// those records then wait in the retry tiers.
pub async fn refresh_tenants(checks: &SenderChecks, batch: &[unslide_stream::Record]) -> bool {
    let stranger = |record: &unslide_stream::Record| {
        let entry = SourceRecord::from_record(record, &checks.topics);
        find_tenant(checks, &entry).is_ok_and(|t| checks.tenants.status(&t) == TenantStatus::Unknown)
    };
    !batch.iter().any(stranger) || checks.tenants.refresh_table().await
}

/// Returns the topics of other cells that records of this batch may be passed on to.
pub fn list_cell_topics(checks: &SenderChecks, batch: &[unslide_stream::Record]) -> BTreeSet<String> {
    let of_record = |record: &unslide_stream::Record| {
        let entry = SourceRecord::from_record(record, &checks.topics);
        // Requests name their tenants in their keys.
        let of_key = || std::str::from_utf8(record.key.as_deref()?).ok()?.split_once('/');
        let tenant =
            tenant_named(checks, &entry).or_else(|| of_key().and_then(|(slug, _)| TenantId::new(slug).ok()));
        let prefix = checks.tenants.moved_to(&tenant?)?;
        let same = checks.topics.name_with_prefix(&record.at.topic, &prefix);
        let TopicNames { input, retry_1s, .. } = TopicNames::with_prefix(&prefix);
        Some([same, Some(input), Some(retry_1s)])
    };
    batch.iter().filter_map(of_record).flatten().flatten().collect()
}

struct Nameless {
    tenant: Option<TenantId>,
    reason: &'static str,
    detail: String,
}
