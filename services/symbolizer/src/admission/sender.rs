//! Whose record it is, and whether it is taken.

use crate::admission::tenants::{AllowedUse, TenantStatus};
use crate::output::retry_tiers::Tier;
use crate::source_record::{Reason, SourceRecord};
use crate::worker::Worker;
use unslide_model::TenantId;
use unslide_proto::headers;

/// What was decided about a record's tenant.
#[derive(Debug)]
pub enum Admission {
    /// The tenant's reports are processed.
    Known {
        /// The tenant.
        tenant: TenantId,
        /// What it may use.
        limits: AllowedUse,
    },
    /// The tenant is unknown, and may still become known.
    Early {
        /// The tenant.
        tenant: TenantId,
    },
    /// The record is not taken.
    Refused {
        /// Whose it is, where it is anybody's.
        tenant: Option<TenantId>,
        /// A stable word.
        reason: &'static str,
        /// For a person.
        detail: String,
    },
    /// The tenant was deleted.
    Deleted {
        /// The tenant.
        tenant: TenantId,
    },
}

/// Decides. `check` is false where the record's signature was found to be right before, `tenants_read` true where the
/// table of tenants was read to its end since the record was polled.
pub fn admit(worker: &Worker, entry: &SourceRecord<'_>, check: bool, tenants_read: bool) -> Admission {
    let refused = |tenant, reason, detail| Admission::Refused { tenant, reason, detail };
    let tenant = match named(worker, entry) {
        Ok(tenant) => tenant,
        Err(Nameless { tenant, reason, detail }) => return refused(tenant, reason, detail),
    };
    // Before anything is used up for the tenant, or said of it.
    if check && !entry.internal {
        let arrived = entry.arrived_millis.unwrap_or_else(|| worker.clock.now_micros() / 1_000);
        if let Err(wrong) = worker.signatures.check(entry.record, &tenant, arrived) {
            return refused(Some(tenant), wrong.reason, wrong.detail);
        }
    }
    match worker.tenants.status(&tenant) {
        TenantStatus::Active => Admission::Known { limits: worker.tenants.limits(&tenant), tenant },
        TenantStatus::Suspended => {
            let detail = format!("the tenant {tenant} is suspended");
            refused(Some(tenant), "tenant_suspended", detail)
        }
        TenantStatus::Deleted => Admission::Deleted { tenant },
        TenantStatus::Unknown if tenants_read && was_in_every_tier(entry) => {
            let detail = format!("there is no tenant {tenant}");
            refused(Some(tenant), Reason::UnknownTenant.word(), detail)
        }
        TenantStatus::Unknown => Admission::Early { tenant },
    }
}

/// The tenant that the record names, whether there is one of this name or not.
pub fn tenant_named(worker: &Worker, entry: &SourceRecord<'_>) -> Option<TenantId> {
    named(worker, entry).map_or_else(|nameless| nameless.tenant, Some)
}

fn named(worker: &Worker, entry: &SourceRecord<'_>) -> Result<TenantId, Nameless> {
    let given = entry.record.headers.get(headers::TENANT);
    let parsed = || TenantId::new(std::str::from_utf8(given?).ok()?).ok();
    // A tenant's own topic names it. Copies carry what was decided.
    let owner = worker.topics.tenant_of_input(&entry.record.at.topic).filter(|_| !entry.internal);
    let count = entry.record.headers.count(headers::TENANT);
    if count > 1 {
        // A gateway that checked one of them and appended another must not be taken by the other's word.
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
            reason: Reason::UnknownTenant.word(),
            detail: format!("{:?} is no tenant's name", String::from_utf8_lossy(name)),
        }),
    }
}

/// True where the record has waited for its tenant in every retry tier, more than ten minutes altogether: as long as a
/// relay may be behind. No clock is asked, because the broker's and this host's may differ.
fn was_in_every_tier(entry: &SourceRecord<'_>) -> bool {
    Tier::after(entry.tries(Reason::UnknownTenant).saturating_add(1)).is_none()
}

/// Reads the table of tenants to its end where a record names one that is not known. Returns false where that can't be
/// done: those records wait in the retry tiers then.
pub async fn refresh(worker: &Worker, batch: &[unslide_stream::Record]) -> bool {
    let stranger = |record: &unslide_stream::Record| {
        let entry = SourceRecord::of(record, &worker.topics);
        named(worker, &entry).is_ok_and(|t| worker.tenants.status(&t) == TenantStatus::Unknown)
    };
    !batch.iter().any(stranger) || worker.tenants.refresh().await
}

struct Nameless {
    tenant: Option<TenantId>,
    reason: &'static str,
    detail: String,
}
