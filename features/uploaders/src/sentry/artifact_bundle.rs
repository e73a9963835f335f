//! `POST /api/0/organizations/{org}/artifactbundle/assemble/`: archives with JavaScript bundles and their source maps.
//!
//! The archive becomes an upload. The builder takes the source maps out of it, under the debug ids of its manifest.

use super::assemble::{DeclaredFile, DeclaredFiles, check_counts, declare_files};
use super::assembly::Assembler;
use super::hash::Sha1Hash;
use super::store::FileUse;
use crate::declaration::read_declaration;
use axum::body::Body;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::SymbolsWrite;
use unslide_api::problem::{Kind, Problem};

/// An archive that a client declares.
#[derive(Deserialize)]
struct DeclaredBundle {
    /// Hash of the whole archive.
    checksum: Sha1Hash,
    chunks: Vec<Sha1Hash>,
    #[serde(default)]
    projects: Vec<String>,
    version: Option<String>,
    dist: Option<String>,
}

impl DeclaredBundle {
    /// Returns the name of the archive in lists of uploads.
    fn describe_bundle(&self) -> String {
        let version = self.version.as_deref().map(|version| format!(" of {version}"));
        let build = self.dist.as_deref().map(|dist| format!(" ({dist})"));
        format!("source maps{}{}", version.unwrap_or_default(), build.unwrap_or_default())
    }
}

/// Answers the state of an archive, and lets it be made if all its chunks are there. It belongs to the first project.
///
/// # Errors
/// The body is not valid or too large, the key is for another app, or a server fails.
pub async fn assemble_bundle(
    storage: &Storage,
    assembler: &Assembler,
    access: &Access<SymbolsWrite>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let mut bundle = read_declaration(&storage.capacity, access, headers, body, parse_bundle).await?;
    let (checksum, name) = (bundle.checksum, bundle.describe_bundle());
    let project = std::mem::take(&mut bundle.projects).into_iter().next();
    let project = project.ok_or_else(|| Problem::new(Kind::InvalidBody, "projects: name the app"))?;
    let files = DeclaredFiles::from([(checksum, DeclaredFile { name, chunks: bundle.chunks })]);
    check_counts(&files)?;
    let mut answers = declare_files(storage, assembler, access, project, files, FileUse::SourceMaps).await?;
    let answer = answers.remove(&checksum).ok_or_else(|| Problem::internal("a file without a state"))?;
    serde_json::to_value(answer.without_facts()).map_err(Problem::internal)
}

fn parse_bundle(body: &[u8]) -> Result<DeclaredBundle, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::new(Kind::InvalidBody, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_listed_by_its_version() {
        let named = |more: &str| {
            let body = format!(r#"{{"checksum":"{}","chunks":[]{more}}}"#, "0".repeat(40));
            parse_bundle(body.as_bytes()).unwrap().describe_bundle()
        };
        assert_eq!(named(r#","version":"shop@1.2","dist":"45""#), "source maps of shop@1.2 (45)");
        assert_eq!(named(""), "source maps");
        assert!(parse_bundle(b"{}").is_err());
    }
}
