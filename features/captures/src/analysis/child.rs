//! The part of an analysis that reads the tenant's files, in a child process.

use super::symbols;
use crate::capture::{CaptureForm, analyse_capture};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;
use std::path::Path;
use unslide_archive::map_file;
use unslide_model::DebugId;
use unslide_sandbox::{ChildTask, ChildTaskError};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SymCache;

/// Reads the files of a capture in the job's folder. The answer is a [`CaptureReading`].
///
/// [`CaptureReading`]: crate::capture::CaptureReading
pub const TASK: ChildTask = ChildTask { name: "analyse_capture", run };

/// The input of the task.
#[derive(Serialize, Deserialize)]
pub struct AnalysisInput {
    /// How the files are read.
    pub form: CaptureForm,
    /// The debug ids of the symcaches in the folder.
    pub symcaches: Vec<DebugId>,
}

fn run(input: Value) -> Result<Box<RawValue>, ChildTaskError> {
    let AnalysisInput { form, symcaches } = serde_json::from_value(input)?;
    let mut files: HashMap<&str, Bytes> = HashMap::new();
    for part in form.list_parts() {
        let path = Path::new(part.name);
        if path.exists() {
            files.insert(part.name, map_file(path)?);
        }
    }
    let mut known: HashMap<DebugId, ImageSymbols> = HashMap::new();
    for debug_id in symcaches {
        let parsed = SymCache::parse(map_file(&symbols::file(&debug_id))?);
        let found =
            parsed.map_or(ImageSymbols::Malformed, |symcache| ImageSymbols::from_symcache(symcache.into()));
        known.insert(debug_id, found);
    }
    let file = |name: &str| files.get(name).map_or(&[][..], |bytes| bytes);
    let read = analyse_capture(&form, &file, &|id| known.get(id));
    let reading = read.map_err(|error| ChildTaskError::Malformed(error.to_string()))?;
    Ok(to_raw_value(&reading)?)
}
