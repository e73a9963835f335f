//! The rows of an owner against its files in object storage.

use super::disagreement::{Disagreement, DisagreementKind, Disagreements};
use std::collections::{BTreeMap, BTreeSet};
use time::{Duration, OffsetDateTime};
use unslide_artifacts::keys::{self, ObjectKey, Prefix};
use unslide_artifacts::{ListingEntry, ObjectStore, StorageError};
use unslide_cli::BoxError;
use unslide_model::{DebugId, Owner, TenantId};
use unslide_store::objects::ObjectStatus;
use unslide_store::symbols::files;
use unslide_store::uploads::UploadStatus;
use unslide_store::{Store, StoreError, feature_files, segments, tenants};

/// Keys of one request of a listing, and tenants of one of the database.
const LISTING_LIMIT: u16 = 1_000;

/// A file that a row needs, with its meaning and the step that brings it back.
struct Needed {
    what: String,
    repair: String,
}

/// The files that the rows of one owner speak of.
#[derive(Default)]
struct KnownFiles {
    needed: BTreeMap<String, Needed>,
    /// Files that may be there.
    allowed: BTreeSet<String>,
    /// Beginnings of keys that may be there.
    prefixes: BTreeSet<String>,
}

const UPLOAD_AGAIN: &str = "upload the file again";
const RESTORE: &str = "restore this object from an older version in the bucket";

/// Compares the files of all owners, and finds those of tenants that do not exist. A file without a row
/// counts once it is as old as `age`, because it may be written before its row.
///
/// # Errors
/// Returns an error if the database or object storage fails.
pub async fn check_files(
    store: &Store,
    objects: &ObjectStore,
    age: Duration,
    found: &mut Disagreements,
) -> Result<(), BoxError> {
    let before = store.clock().now() - age;
    check_owner(store, objects, &Owner::System, before, found).await?;
    let (mut known, mut last) = (BTreeSet::new(), None);
    loop {
        let page = tenants::list_tenants(store, last.as_ref(), LISTING_LIMIT.into()).await?;
        let Some(end) = page.last() else { break };
        last = Some(end.id.clone());
        for tenant in page {
            // The files of a deleted tenant are on their way out.
            if tenant.state != tenants::TenantStanding::Deleted {
                check_owner(store, objects, &Owner::Tenant(tenant.id.clone()), before, found).await?;
            }
            known.insert(tenant.id);
        }
    }
    without_tenant(objects, &known, found).await?;
    Ok(())
}

async fn check_owner(
    store: &Store,
    objects: &ObjectStore,
    owner: &Owner,
    written_before: OffsetDateTime,
    found: &mut Disagreements,
) -> Result<(), BoxError> {
    let known = known_files(store, owner).await?;
    let (listed, unknown) =
        compare_files(objects, &keys::owner_prefix(owner), &known, written_before).await?;
    let missing: Vec<&String> = known.needed.keys().filter(|key| !listed.contains(*key)).collect();
    if missing.is_empty() && unknown.is_empty() {
        return Ok(());
    }
    // The services continue during this: only differences before and after the listing count.
    let after = known_files(store, owner).await?;
    for key in missing {
        if let Some(needed) = after.needed.get(key) {
            found.add_disagreement(Disagreement {
                problem: DisagreementKind::FileMissing,
                subject: key.clone(),
                detail: needed.what.clone(),
                repair: needed.repair.clone(),
            });
        }
    }
    let mut told = BTreeSet::new();
    for key in unknown.into_iter().filter(|key| !after.has_file(key)) {
        if let Some(disagreement) = without_row(owner, &key, &mut told) {
            found.add_disagreement(disagreement);
        }
    }
    Ok(())
}

/// Lists all files below a prefix. Returns the keys of those that rows need, and of those without a row that
/// were written before a moment.
async fn compare_files(
    objects: &ObjectStore,
    prefix: &Prefix,
    known: &KnownFiles,
    before: OffsetDateTime,
) -> Result<(BTreeSet<String>, Vec<String>), StorageError> {
    let (mut needed, mut unknown, mut after) = (BTreeSet::new(), Vec::new(), None);
    loop {
        let page = objects.list(prefix, after.as_ref(), LISTING_LIMIT).await?;
        for ListingEntry { key, modified, .. } in page.entries {
            let key = key.to_string();
            if known.needed.contains_key(&key) {
                needed.insert(key);
            } else if !known.has_file(&key) && modified.is_some_and(|at| at <= before) {
                unknown.push(key);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok((needed, unknown));
        }
    }
}

/// Says what a file without a row is; `None` if another file of the same symbols was told.
fn without_row(owner: &Owner, key: &str, told: &mut BTreeSet<String>) -> Option<Disagreement> {
    let below = key.strip_prefix(keys::owner_prefix(owner).as_str()).unwrap_or(key);
    let mut parts = below.split('/');
    let disagreement = |problem, detail: String, repair: &str| {
        Some(Disagreement { problem, subject: key.to_owned(), detail, repair: repair.to_owned() })
    };
    match (parts.next(), parts.next(), parts.next()) {
        (Some("symbols"), Some(folder), Some(rest)) => {
            let digits = format!("{folder}{rest}");
            let uuid = digits.parse::<DebugId>().map_or(digits, |id| id.to_string());
            let detail = format!("symbols of {uuid} of {owner} are used for reports, but no list shows them");
            told.insert(uuid)
                .then(|| disagreement(DisagreementKind::SymbolsWithoutRow, detail, UPLOAD_AGAIN))?
        }
        _ => disagreement(
            DisagreementKind::FileWithoutRow,
            format!("no row of {owner} names it"),
            "delete the object, or leave it",
        ),
    }
}

/// Finds the folders of tenants that do not exist.
async fn without_tenant(
    objects: &ObjectStore,
    known: &BTreeSet<TenantId>,
    found: &mut Disagreements,
) -> Result<(), StorageError> {
    let mut after: Option<ObjectKey> = None;
    loop {
        let page = objects.list(&keys::tenants_prefix(), after.as_ref(), 1).await?;
        let Some(first) = page.entries.first() else { return Ok(()) };
        let Some((folder, end)) = keys::tenant_folder(&first.key) else {
            after = Some(first.key.clone());
            continue;
        };
        if !TenantId::new(folder).is_ok_and(|tenant| known.contains(&tenant)) {
            found.add_disagreement(Disagreement {
                problem: DisagreementKind::FilesWithoutTenant,
                subject: folder.to_owned(),
                detail: format!("there are objects below t/{folder}/"),
                repair: format!("unslide tenant create {folder}, then upload its dSYMs again"),
            });
        }
        after = Some(end);
    }
}

async fn known_files(store: &Store, owner: &Owner) -> Result<KnownFiles, StoreError> {
    let mut known = KnownFiles::default();
    let mut tx = store.owner(owner).await?;
    for (id, status) in files::list_upload_files(&mut tx).await? {
        let key = keys::for_upload(owner.own(id)).to_string();
        match status {
            UploadStatus::Queued | UploadStatus::Building => {
                known.need_file(key, format!("upload {id} waits for it"), UPLOAD_AGAIN);
            }
            _ => known.allow_file(key),
        }
    }
    for object in files::list_object_files(&mut tx).await? {
        known.add_object(owner, &object);
    }
    tx.rollback().await?;
    if let Owner::Tenant(tenant) = owner {
        let mut tx = store.tenant(tenant).await?;
        let segments = segments::list_keys(&mut tx).await?;
        for key in segments.live {
            known.need_file(key, "bodies of reports".to_owned(), RESTORE);
        }
        known.allowed.extend(segments.begun.into_iter().chain(segments.condemned));
        for file in feature_files(&mut tx).await? {
            match file.needed_as {
                Some(what) => known.need_file(file.key, what, RESTORE),
                None => known.allow_file(file.key),
            }
        }
        tx.rollback().await?;
    }
    Ok(known)
}

impl KnownFiles {
    fn need_file(&mut self, key: String, what: String, repair: &str) {
        self.needed.insert(key, Needed { what, repair: repair.to_owned() });
    }

    fn allow_file(&mut self, key: String) {
        self.allowed.insert(key);
    }

    /// Returns true if rows name this file.
    fn has_file(&self, key: &str) -> bool {
        let below = |prefix: &String| key.starts_with(prefix.as_str());
        self.needed.contains_key(key)
            || self.allowed.contains(key)
            // The prefix of a key is the last one before it.
            || self.prefixes.range(..=key.to_owned()).next_back().is_some_and(below)
    }

    fn add_object(&mut self, owner: &Owner, object: &files::ObjectFiles) {
        let files::ObjectFiles { content_hash, debug_id, name, .. } = object;
        let what = |file: &str| {
            let uuid = debug_id.map_or_else(String::new, |id| format!(" with the UUID {id}"));
            format!("{file} of {name}{uuid}, of {owner}")
        };
        let bytes = keys::for_object(owner.own(*content_hash)).to_string();
        if object.status == ObjectStatus::Ready {
            self.need_file(bytes, what("the file"), UPLOAD_AGAIN);
        } else {
            self.allow_file(bytes);
        }
        let Some(id) = debug_id else { return };
        let symbols = keys::for_symbols(owner.own(*id));
        self.prefixes.insert(symbols.prefix().as_str().to_owned());
        let build_again = match owner {
            Owner::Tenant(tenant) => format!("unslide symbols backfill --all --tenant {tenant}"),
            Owner::System => "unslide symbols backfill --all --yes".to_owned(),
        };
        if let Some((version, sha256)) = object.symcache {
            self.need_file(
                symbols.symcache(version, &sha256).to_string(),
                what("the symcache"),
                &build_again,
            );
            if object.answers {
                self.need_file(
                    symbols.alias(version).to_string(),
                    what("the symcache that answers"),
                    &build_again,
                );
            }
        }
    }
}
