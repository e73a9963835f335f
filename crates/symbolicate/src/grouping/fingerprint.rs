//! The fingerprint of the functions that count, with the title and the culprit for readers.

use super::candidates::Candidates;
use super::{CountedFrame, GROUPING_VERSION, GroupKind, Grouping, GroupingRules, title};
use crate::json::{ObjectWriter, key};
use sha2::{Digest, Sha256};
use unslide_report::CrashError;

/// Returns the fingerprint, the title and the culprit of a report in which these functions count. `chosen` has their
/// positions in the order of the fingerprint, `by_depth` those that may be the culprit, the first choice first.
pub(super) fn build_grouping(
    kind: GroupKind,
    error: &CrashError,
    rules: &GroupingRules,
    candidates: &Candidates<'_>,
    chosen: &[usize],
    by_depth: &[usize],
) -> Grouping {
    let at_position = |at: &usize| candidates.list.get(*at).map(|candidate| &candidate.counted);
    let counted: Vec<CountedFrame> = chosen.iter().filter_map(at_position).cloned().collect();
    let trap = candidates.trap_inside(chosen);
    let mut parts: Vec<&str> = vec![kind.as_str()];
    // The programmer chose an exception's name. The processor's and the kernel's names for a crash depend on
    // the architecture.
    match kind {
        GroupKind::Exception | GroupKind::User | GroupKind::Profile => {
            parts.push(error.exception.as_deref().unwrap_or_default());
        }
        GroupKind::Termination => parts.push(error.termination.as_deref().unwrap_or_default()),
        _ => {}
    }
    let mut functions: Vec<&str> = counted.iter().map(|frame| frame.function.as_str()).collect();
    if kind == GroupKind::StackOverflow {
        functions.sort_unstable();
    }
    let masked = match (&error.reason, &error.message) {
        (None, Some(message)) => title::masked_message(message),
        (reason, _) => title::mask_text(reason.as_deref().unwrap_or_default()),
    };
    if functions.is_empty() && !matches!(kind, GroupKind::OutOfMemory | GroupKind::Termination) {
        // No function is known, so the kind of error has to do.
        parts.extend(
            [error.exception.as_deref(), error.signal.as_deref(), error.code.as_deref()]
                .into_iter()
                .flatten(),
        );
        parts.push(&masked);
    }
    parts.extend(functions);
    let mut suspects = by_depth.iter().filter_map(at_position);
    let blamed = suspects.clone().find(|frame| !frame.is_of_header()).or(suspects.next());
    let culprit = blamed.map(|frame| match (&frame.file, &frame.label) {
        (Some(file), _) => format!("{} ({file})", frame.function),
        (None, label) => label.as_ref().unwrap_or(&frame.function).clone(),
    });
    let place = blamed.map(|frame| match &frame.label {
        Some(label) => format!("{label}, symbols missing"),
        None => frame.function.clone(),
    });
    Grouping {
        fingerprint: hash_parts(&parts),
        kind,
        provisional: counted.iter().any(|frame| frame.label.is_some()),
        title: title::build_title(kind, error, trap, place.as_deref()),
        headline: None,
        culprit,
        culprit_frame: blamed.cloned(),
        frames: counted,
        rules: rules.hash().to_owned(),
    }
}

/// Returns the first 16 bytes of the hash of the parts.
pub(super) fn hash_parts(parts: &[&str]) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(GROUPING_VERSION.to_le_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&digest[..16]);
    fingerprint
}

/// Writes the value of the report's member `grouping`.
pub(crate) fn write_grouping(out: &mut Vec<u8>, grouping: &Grouping) {
    let hex = grouping.fingerprint_text();
    let mut object = ObjectWriter::open(out);
    object.write_number(key!("version"), GROUPING_VERSION);
    object.write_escaped(key!("fingerprint"), hex.as_bytes());
    if !grouping.rules.is_empty() {
        object.write_escaped(key!("rules"), grouping.rules.as_bytes());
    }
    object.write_escaped(key!("kind"), grouping.kind.as_str().as_bytes());
    object.write_flag(key!("provisional"), grouping.provisional);
    object.write_text(key!("title"), &grouping.title);
    if let Some(headline) = &grouping.headline {
        object.write_text(key!("headline"), headline);
    }
    if let Some(culprit) = &grouping.culprit {
        object.write_text(key!("culprit"), culprit);
    }
    if !grouping.frames.is_empty() {
        let out = object.write_key(key!("frames"));
        for (n, counted) in grouping.frames.iter().enumerate() {
            out.push(if n == 0 { b'[' } else { b',' });
            let mut frame = ObjectWriter::open(out);
            frame.write_number(key!("frame"), counted.frame);
            frame.write_text(key!("function"), &counted.function);
            frame.close();
        }
        out.push(b']');
    }
    object.close();
}
