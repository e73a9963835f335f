//! One batch of looks of a tenant: files and rules are read once, and each group is a unit of work of its own.

use super::cause::{GroupCause, read_cause};
use crate::store::{
    self, DueGroup, OwnerExplanation, OwnerLook, OwnersApp, OwnersFileId, StoredOwnersFile, UnchangedLooks,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::Problem;
use unslide_model::{TenantId, is_newer};
use unslide_owners_formats::{
    OwnerOutcome, OwnersDialect, OwnersFile, PathRewrite, ResolvedOwner, resolve_owner,
};
use unslide_store::TenantTx;
use unslide_store::groups::rules;
use unslide_symbolicate::grouping::GroupingRules;

/// Files that are kept in memory.
const FILES_LIMIT: usize = 2;
/// Limits of a stored explanation.
const EXPLANATION_BYTES: usize = 24 << 10;
const TEXT_CHARS: usize = 1_000;
/// The most bytes of the path of a source file that are kept with a group.
const PATH_BYTES: usize = 4_096;

/// Reason why a look at a group has no result.
#[derive(Debug)]
pub enum UnfinishedLook {
    /// Its files or rewrites have changed, or a newer look has ended: the change has made the group due again.
    Old,
    /// It is to be repeated: a server does not answer, or the report cannot be read.
    Failed(Problem),
}

impl<E> From<E> for UnfinishedLook
where
    Problem: From<E>,
{
    fn from(error: E) -> UnfinishedLook {
        UnfinishedLook::Failed(error.into())
    }
}

/// Data that looks of one tenant share.
pub struct LookBatch<'s> {
    symbolication: &'s Symbolication,
    tenant: &'s TenantId,
    rules: Arc<GroupingRules>,
    apps: BTreeMap<String, (OwnersApp, Vec<StoredOwnersFile>)>,
    files: Vec<(OwnersFileId, Arc<OwnersFile>)>,
    /// Owners of paths that earlier looks of the batch have found: many groups have one source file.
    resolved: BTreeMap<(OwnersFileId, String), ResolvedOwner>,
    unchanged: UnchangedLooks,
}

impl<'s> LookBatch<'s> {
    /// Reads what all looks need, in the transaction that claims their groups.
    ///
    /// # Errors
    /// The database fails.
    pub async fn read(
        symbolication: &'s Symbolication,
        tenant: &'s TenantId,
        tx: &mut TenantTx,
    ) -> Result<LookBatch<'s>, Problem> {
        let rules = rules::get(tx).await?;
        let rules = rules.and_then(|rules| GroupingRules::parse(&rules.text).ok()).unwrap_or_default();
        Ok(LookBatch {
            symbolication,
            tenant,
            rules: Arc::new(rules),
            apps: BTreeMap::new(),
            files: Vec::new(),
            resolved: BTreeMap::new(),
            unchanged: UnchangedLooks::default(),
        })
    }

    /// Looks for the owner of a group, and stores what it finds. What the last look had found is stored by [`LookBatch::finish_unchanged`].
    ///
    /// # Errors
    /// See [`UnfinishedLook`].
    pub async fn look_at(&mut self, due: &DueGroup) -> Result<OwnerOutcome, UnfinishedLook> {
        let (app, files) = self.read_app(&due.app).await?;
        let mut found = self.read_group(due).await?;
        let file = choose_file(&files, &found.explanation.version);
        let resolved = match (&found.explanation.path, file) {
            (None, _) if found.report.is_none() => ResolvedOwner::without_line(OwnerOutcome::NoReport),
            (None, _) => ResolvedOwner::without_line(OwnerOutcome::NoSource),
            (Some(_), None) => ResolvedOwner::without_line(OwnerOutcome::NoFile),
            (Some(path), Some(file)) => self.resolve(file, &app.paths, path.clone()).await?,
        };
        found.explanation = OwnerExplanation {
            file_version: file.map(|file| file.version.clone()),
            dialect: file.map(|file| file.dialect.clone()),
            repository_path: resolved.repository_path,
            rewrite: resolved.rewrite,
            lines: resolved.lines,
            ..found.explanation
        };
        limit_explanation(&mut found.explanation);
        found.outcome = resolved.outcome;
        found.owners = resolved.owners;
        found.file = file.map(|file| file.id);
        let is_same = |before: &OwnerLook| OwnerLook { file: found.file, ..before.clone() } == found;
        if due.before.as_ref().is_some_and(is_same) {
            self.unchanged.add_look(due, &app, found.file);
            return Ok(found.outcome);
        }
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        if !store::finish_look(&mut tx, due, &app, &found).await? {
            tx.rollback();
            // The next look of this batch reads the app again.
            self.apps.remove(&due.app);
            self.resolved.clear();
            return Err(UnfinishedLook::Old);
        }
        tx.commit().await?;
        Ok(found.outcome)
    }

    /// Ends the looks that have found what the ones before had found.
    ///
    /// # Errors
    /// The database fails.
    pub async fn finish_unchanged(self) -> Result<(), Problem> {
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        self.unchanged.end_looks(&mut tx).await?;
        Ok(tx.commit().await?)
    }

    /// Returns the cause of a group without its owner: from a stored report, or as the last look has read it.
    async fn read_group(&self, due: &DueGroup) -> Result<OwnerLook, UnfinishedLook> {
        let before = due.before.clone();
        let mut explanation = before.as_ref().map(|look| look.explanation.keep_cause()).unwrap_or_default();
        let mut report = before.as_ref().and_then(|look| look.report);
        if due.needs_report {
            let cause = read_cause(self.symbolication, self.tenant, due.group, &self.rules).await?;
            report = cause.as_ref().map(|cause| (cause.report, cause.variant, cause.revision));
            // Without a report, its reports are deleted: what the last look has read still holds.
            explanation = cause.as_ref().map_or(explanation, explain_cause);
        }
        if explanation.version.is_empty() || is_newer(&due.newest_version, &explanation.version) {
            explanation.version = cut_text(&due.newest_version);
        }
        Ok(OwnerLook {
            outcome: OwnerOutcome::NoSource,
            owners: Vec::new(),
            explanation,
            file: None,
            report,
            culprit: due.culprit.clone(),
        })
    }

    async fn read_app(&mut self, name: &str) -> Result<(OwnersApp, Vec<StoredOwnersFile>), UnfinishedLook> {
        if let Some(known) = self.apps.get(name) {
            return Ok(known.clone());
        }
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        // The epoch is read first: a file that changes in between makes the result old.
        let app = store::get_app(&mut tx, name).await?;
        let app = app.ok_or(UnfinishedLook::Old)?;
        let files = store::list_files(&mut tx, name).await?;
        tx.rollback();
        self.apps.insert(name.to_owned(), (app.clone(), files.clone()));
        Ok((app, files))
    }

    /// Finds the owner of a path, on the CPU pool.
    async fn resolve(
        &mut self,
        file: &StoredOwnersFile,
        paths: &[PathRewrite],
        path: String,
    ) -> Result<ResolvedOwner, UnfinishedLook> {
        let known = (file.id, path.clone());
        if let Some(resolved) = self.resolved.get(&known) {
            return Ok(resolved.clone());
        }
        let read = self.read_file(file).await?;
        let paths = paths.to_vec();
        let work = move || resolve_owner(&read, &paths, &path);
        let resolved = self.symbolication.capacity.cpu.run_for(self.tenant, work).await?;
        self.resolved.insert(known, resolved.clone());
        Ok(resolved)
    }

    async fn read_file(&mut self, file: &StoredOwnersFile) -> Result<Arc<OwnersFile>, UnfinishedLook> {
        if let Some((_, read)) = self.files.iter().find(|(id, _)| *id == file.id) {
            return Ok(read.clone());
        }
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        let content = store::read_content(&mut tx, file.id).await?;
        tx.rollback();
        let content = content.ok_or(UnfinishedLook::Old)?;
        let dialect = OwnersDialect::parse(&file.dialect).unwrap_or(OwnersDialect::GitHub);
        let parse = move || OwnersFile::parse(content.as_bytes(), dialect).map_err(Problem::internal);
        let read = Arc::new(self.symbolication.capacity.cpu.run_for(self.tenant, parse).await??);
        self.files.truncate(FILES_LIMIT - 1);
        self.files.insert(0, (file.id, read.clone()));
        Ok(read)
    }
}

/// Returns the file of a version: its own, else that of all versions, else the newest.
fn choose_file<'f>(files: &'f [StoredOwnersFile], version: &str) -> Option<&'f StoredOwnersFile> {
    let of = |version: &str| files.iter().find(|file| file.version == version);
    of(version).or_else(|| of("")).or_else(|| files.first())
}

fn cut_text(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

fn explain_cause(cause: &GroupCause) -> OwnerExplanation {
    let blamed = cause.blamed.as_ref();
    OwnerExplanation {
        version: cut_text(&cause.version),
        frame: blamed.map(|blamed| blamed.frame),
        function: blamed.map(|blamed| cut_text(&blamed.function)),
        // A path that was cut would have another owner.
        path: blamed
            .and_then(|blamed| blamed.path.clone())
            .filter(|path| !path.contains('\0') && path.len() <= PATH_BYTES),
        ..OwnerExplanation::default()
    }
}

/// Leaves out lines from the end until the explanation has its limit.
fn limit_explanation(explanation: &mut OwnerExplanation) {
    for line in &mut explanation.lines {
        line.pattern = line.pattern.chars().take(TEXT_CHARS).collect();
        line.section = line.section.take().map(|name| name.chars().take(TEXT_CHARS).collect());
    }
    let is_large = |explanation: &OwnerExplanation| {
        serde_json::to_vec(explanation).map_or(0, |bytes| bytes.len()) > EXPLANATION_BYTES
    };
    while explanation.lines.len() > 1 && is_large(explanation) {
        explanation.lines.pop();
    }
}
