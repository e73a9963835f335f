//! One batch of looks of a tenant: files and rules are read once, and each group is a unit of work of its own.

use super::cause::{GroupCause, read_cause};
use crate::store::{self, DueGroup, FoundOwner, OwnerExplanation, OwnersApp, OwnersFileId, StoredOwnersFile};
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::Problem;
use unslide_model::TenantId;
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

/// The look at a group is old: its files or rewrites have changed, or a newer look has ended.
#[derive(Debug, thiserror::Error)]
#[error("the look is old: files, rewrites or the group have changed since it began")]
struct OldLook;

/// Data that looks of one tenant share.
pub struct LookBatch<'s> {
    symbolication: &'s Symbolication,
    tenant: &'s TenantId,
    rules: Arc<GroupingRules>,
    apps: BTreeMap<String, (OwnersApp, Vec<StoredOwnersFile>)>,
    files: Vec<(OwnersFileId, Arc<OwnersFile>)>,
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
        })
    }

    /// Looks for the owner of a group, and stores what it finds.
    ///
    /// # Errors
    /// The look is to be repeated: a server does not answer, or the result is old.
    pub async fn look_at(&mut self, due: &DueGroup) -> Result<OwnerOutcome, Problem> {
        let (app, files) = self.read_app(&due.app).await?;
        let cause = read_cause(self.symbolication, self.tenant, due.group, &self.rules).await?;
        let mut explanation = match &cause {
            Some(cause) => explain_cause(cause),
            // Its reports are deleted. What the last look has read still holds.
            None => OwnerExplanation {
                version: due.before.version.clone(),
                frame: due.before.frame,
                function: due.before.function.clone(),
                path: due.before.path.clone(),
                ..OwnerExplanation::default()
            },
        };
        let file = choose_file(&files, &explanation.version);
        let resolved = match (&explanation.path, file) {
            (None, _) if cause.is_none() => ResolvedOwner::without_line(OwnerOutcome::NoReport),
            (None, _) => ResolvedOwner::without_line(OwnerOutcome::NoSource),
            (Some(_), None) => ResolvedOwner::without_line(OwnerOutcome::NoFile),
            (Some(path), Some(file)) => self.resolve(file, &app.paths, path.clone()).await?,
        };
        explanation.file_version = file.map(|file| file.version.clone());
        explanation.dialect = file.map(|file| file.dialect.clone());
        explanation.repository_path = resolved.repository_path;
        explanation.rewrite = resolved.rewrite;
        explanation.lines = resolved.lines;
        limit_explanation(&mut explanation);
        let found = FoundOwner {
            outcome: resolved.outcome,
            owners: resolved.owners,
            explanation,
            file: file.map(|file| file.id),
            report: cause.map(|cause| (cause.report, cause.variant, cause.revision)),
        };
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        if !store::finish_look(&mut tx, due, &app, &found).await? {
            tx.rollback();
            // The next look of this batch reads the app again.
            self.apps.remove(&due.app);
            return Err(Problem::internal(OldLook));
        }
        tx.commit().await?;
        Ok(found.outcome)
    }

    async fn read_app(&mut self, name: &str) -> Result<(OwnersApp, Vec<StoredOwnersFile>), Problem> {
        if let Some(known) = self.apps.get(name) {
            return Ok(known.clone());
        }
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        // The epoch is read first: a file that changes in between makes the result old.
        let app = store::get_app(&mut tx, name).await?;
        let app = app.ok_or_else(|| Problem::internal(OldLook))?;
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
    ) -> Result<ResolvedOwner, Problem> {
        let read = self.read_file(file).await?;
        let paths = paths.to_vec();
        let work = move || resolve_owner(&read, &paths, &path);
        Ok(self.symbolication.capacity.cpu.run_for(self.tenant, work).await?)
    }

    async fn read_file(&mut self, file: &StoredOwnersFile) -> Result<Arc<OwnersFile>, Problem> {
        if let Some((_, read)) = self.files.iter().find(|(id, _)| *id == file.id) {
            return Ok(read.clone());
        }
        let mut tx = self.symbolication.storage.tenant(self.tenant).await?;
        let content = store::read_content(&mut tx, file.id).await?;
        tx.rollback();
        let content = content.ok_or_else(|| Problem::internal(OldLook))?;
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

fn explain_cause(cause: &GroupCause) -> OwnerExplanation {
    let cut = |text: &String| text.chars().take(TEXT_CHARS).collect();
    OwnerExplanation {
        version: cut(&cause.version),
        frame: cause.blamed.as_ref().map(|blamed| blamed.frame),
        function: cause.blamed.as_ref().map(|blamed| cut(&blamed.function)),
        // A path that was cut would have another owner: the report has none that is as long as that.
        path: cause
            .blamed
            .as_ref()
            .and_then(|blamed| blamed.path.clone())
            .filter(|path| !path.contains('\0')),
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
