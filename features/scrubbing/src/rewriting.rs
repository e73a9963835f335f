//! The rules of all tenants in the indexer, applied to each report before it is stored.

use crate::store::{self, RulesRevision};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_feature::{ReportRewriting, RewriteReports, RewrittenReport};
use unslide_model::TenantId;
use unslide_scrubbing_rules::ScrubRules;
use unslide_store::{HookFuture, Result, Store, StoreError};

/// The part of the feature in the indexer.
pub const REWRITING: ReportRewriting = ReportRewriting { name: crate::NAME, load: load_rules };

/// The problem of reports if the rules of their app cannot be used.
const UNUSABLE: &str = "the rules of the app cannot be used: set them again";

/// Compiled rules of an app.
#[derive(Clone)]
struct CompiledRules {
    revision: String,
    /// Or why they cannot be used: then no report of the app is stored.
    rules: std::result::Result<Arc<ScrubRules>, String>,
}

/// Rules by tenant and app. Cheap to share.
#[derive(Default)]
pub struct TenantRules(BTreeMap<TenantId, BTreeMap<String, CompiledRules>>);

fn load_rules(
    store: &Store,
    known: Option<Arc<dyn RewriteReports>>,
) -> HookFuture<'_, Arc<dyn RewriteReports>> {
    Box::pin(async move {
        let downcast = |known: Arc<dyn RewriteReports>| {
            let known: Arc<dyn Any + Send + Sync> = known;
            known.downcast::<TenantRules>().ok()
        };
        let known = known.and_then(downcast);
        let revisions = store::list_revisions(store).await?;
        if let Some(known) = known.as_ref().filter(|known| known.is_current(&revisions)) {
            return Ok(Arc::clone(known) as Arc<dyn RewriteReports>);
        }
        let mut current = TenantRules::default();
        for (tenant, revisions) in by_tenant(revisions) {
            let unchanged = known.as_ref().and_then(|known| known.0.get(&tenant));
            let unchanged = unchanged.filter(|known| is_current(known, &revisions));
            let rules = match unchanged {
                Some(unchanged) => unchanged.clone(),
                None => compile_rules(store, &tenant, &revisions).await?,
            };
            current.0.insert(tenant, rules);
        }
        Ok(Arc::new(current) as Arc<dyn RewriteReports>)
    })
}

/// Loads the rules of one tenant.
///
/// # Errors
/// The database fails.
pub async fn load_tenant_rules(store: &Store, tenant: &TenantId) -> Result<TenantRules> {
    let mut revisions = by_tenant(store::list_revisions(store).await?);
    let rules = match revisions.remove(tenant) {
        Some(revisions) => compile_rules(store, tenant, &revisions).await?,
        None => BTreeMap::new(),
    };
    Ok(TenantRules([(tenant.clone(), rules)].into()))
}

fn by_tenant(revisions: Vec<RulesRevision>) -> BTreeMap<TenantId, BTreeMap<String, String>> {
    let mut tenants: BTreeMap<TenantId, BTreeMap<String, String>> = BTreeMap::new();
    for RulesRevision { tenant, app, revision } in revisions {
        tenants.entry(tenant).or_default().insert(app, revision);
    }
    tenants
}

fn is_current(known: &BTreeMap<String, CompiledRules>, revisions: &BTreeMap<String, String>) -> bool {
    known.len() == revisions.len()
        && revisions
            .iter()
            .all(|(app, revision)| known.get(app).is_some_and(|known| known.revision == *revision))
}

/// Reads and compiles the rules of a tenant. Rules that cannot be used keep their reports from being stored, and nothing of others.
async fn compile_rules(
    store: &Store,
    tenant: &TenantId,
    revisions: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, CompiledRules>> {
    let mut tx = store.tenant(tenant).await?;
    let read = (store::list_rules(&mut tx).await, store::find_salt(&mut tx).await?);
    tx.rollback().await?;
    let (listed, salt) = match read {
        (Ok(listed), Some(salt)) => (listed, salt),
        (Err(error), _) if !matches!(error, StoreError::Corrupt { .. }) => return Err(error),
        _ => {
            let unusable = |(app, revision): (&String, &String)| {
                (app.clone(), CompiledRules { revision: revision.clone(), rules: Err(UNUSABLE.to_owned()) })
            };
            return Ok(revisions.iter().map(unusable).collect());
        }
    };
    let compiled = listed.into_iter().map(|of_app| {
        let rules = ScrubRules::compile(&of_app.config, salt.clone()).map(Arc::new);
        let rules = rules.map_err(|error| format!("{UNUSABLE}: {error}"));
        (of_app.app, CompiledRules { revision: of_app.revision, rules })
    });
    Ok(compiled.collect())
}

impl TenantRules {
    fn is_current(&self, revisions: &[RulesRevision]) -> bool {
        let count: usize = self.0.values().map(BTreeMap::len).sum();
        count == revisions.len()
            && revisions.iter().all(|listed| {
                let known = self.0.get(&listed.tenant).and_then(|known| known.get(&listed.app));
                known.is_some_and(|known| known.revision == listed.revision)
            })
    }
}

impl TenantRules {
    /// Returns true if there are rules for an app of a tenant.
    pub fn has_rules(&self, tenant: &TenantId, app: &str) -> bool {
        self.find_rules(tenant, app).is_some()
    }

    fn find_rules(&self, tenant: &TenantId, app: &str) -> Option<&CompiledRules> {
        let of_tenant = self.0.get(tenant)?;
        of_tenant.get(app).or_else(|| of_tenant.get(""))
    }
}

impl RewriteReports for TenantRules {
    fn rewrite_report(
        &self,
        tenant: &TenantId,
        app: &str,
        document: &[u8],
    ) -> std::result::Result<Option<RewrittenReport>, String> {
        let Some(compiled) = self.find_rules(tenant, app) else { return Ok(None) };
        let rules = compiled.rules.as_ref().map_err(Clone::clone)?;
        let scrubbed = rules.scrub_report(document).map_err(|error| error.to_string())?;
        if scrubbed.taken.is_empty() {
            return Ok(None);
        }
        Ok(Some(RewrittenReport { document: scrubbed.bytes.into_owned(), changes: scrubbed.taken }))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use unslide_scrubbing_rules::{OwnRule, ScrubAction, ScrubConfig, ScrubSalt};

    fn compile_config(config: &ScrubConfig) -> CompiledRules {
        let rules = ScrubRules::compile(config, ScrubSalt::new(&[7; 32])).unwrap();
        CompiledRules { revision: "1".to_owned(), rules: Ok(Arc::new(rules)) }
    }

    /// Returns rules for all apps of the tenant acme.
    pub fn rules_for_all(config: &ScrubConfig) -> TenantRules {
        let acme = TenantId::new("acme").unwrap();
        TenantRules([(acme, [(String::new(), compile_config(config))].into())].into())
    }

    fn compiled(pattern: &str) -> CompiledRules {
        let rule =
            OwnRule { name: "mine".to_owned(), pattern: pattern.to_owned(), action: ScrubAction::Mask };
        compile_config(&ScrubConfig { own: vec![rule], ..ScrubConfig::default() })
    }

    #[test]
    fn an_app_has_its_own_rules_or_those_of_all_others_and_a_tenant_without_rules_none() {
        let acme = TenantId::new("acme").unwrap();
        let of_acme =
            [(String::new(), compiled("red")), ("com.example.shop".to_owned(), compiled("green"))].into();
        let rules = TenantRules([(acme.clone(), of_acme)].into());
        let report = br#"{"crash":{"error":{"reason":"red green"}}}"#;
        let rewrite = |tenant: &TenantId, app: &str| {
            let found = rules.rewrite_report(tenant, app, report).unwrap();
            found.map(|found| String::from_utf8(found.document).unwrap())
        };
        assert!(rewrite(&acme, "com.example.shop").unwrap().contains("red [scrubbed:mine]"));
        assert!(rewrite(&acme, "com.example.other").unwrap().contains("[scrubbed:mine] green"));
        assert_eq!(rewrite(&TenantId::new("umbrella").unwrap(), ""), None);
        assert!(rules.rewrite_report(&acme, "", b"{\"a").is_err());
        let counted = rules.rewrite_report(&acme, "", report).unwrap().unwrap();
        assert_eq!(counted.changes, [("mine".to_owned(), 1)].into());
    }

    #[test]
    fn keys_without_a_report_are_scrubbed_as_those_of_one() {
        let acme = TenantId::new("acme").unwrap();
        let rules = TenantRules([(acme.clone(), [(String::new(), compiled("red"))].into())].into());
        let found =
            rules.rewrite_report(&acme, "", br#"{"user":{"theme":"dark red","red":7}}"#).unwrap().unwrap();
        let expected = br#"{"user":{"theme":"dark [scrubbed:mine]","[scrubbed:mine]":7}}"#;
        assert_eq!(found.document, expected);
    }

    #[test]
    fn rules_are_loaded_again_only_if_one_was_added_changed_or_removed() {
        let acme = TenantId::new("acme").unwrap();
        let rules = TenantRules([(acme.clone(), [(String::new(), compiled("red"))].into())].into());
        let listed = |app: &str, revision: &str| RulesRevision {
            tenant: acme.clone(),
            app: app.to_owned(),
            revision: revision.to_owned(),
        };
        let same = listed("", "1");
        assert!(rules.is_current(std::slice::from_ref(&same)));
        assert!(!rules.is_current(&[]));
        assert!(!rules.is_current(&[listed("", "2")]));
        assert!(!rules.is_current(&[same, listed("com.example.shop", "1")]));
    }
}
