//! Kinds of diagnostic reports.

use super::members::is_name;

/// The maximum size of the name of an unknown kind, in bytes.
const NAME_BYTES_LIMIT: usize = 100;

/// The kind of a report, by the name of its diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportKind {
    Crash,
    Hang,
    Cpu,
    DiskWrite,
    Launch,
    Memory,
    /// A kind that is not known, with the name of its member.
    Other(String),
    /// A call stack tree without the rest of its diagnostic.
    Tree,
}

/// The known kinds with the names of their members, and with those that Swift would write for an enumeration.
const KNOWN_KINDS: [(&str, &str, ReportKind); 6] = [
    ("crashDiagnostic", "crash", ReportKind::Crash),
    ("hangDiagnostic", "hang", ReportKind::Hang),
    ("cpuExceptionDiagnostic", "cpuException", ReportKind::Cpu),
    ("diskWriteExceptionDiagnostic", "diskWriteException", ReportKind::DiskWrite),
    ("appLaunchDiagnostic", "appLaunch", ReportKind::Launch),
    ("memoryExceptionDiagnostic", "memoryException", ReportKind::Memory),
];

/// Names of a diagnostic with sampled stacks, in the report and in a payload.
#[derive(Clone, Copy, Debug)]
pub struct SampledKind {
    /// The list of such diagnostics in a payload.
    pub list_key: &'static str,
    /// The name of the measured value in the report, and its unit.
    pub measure: &'static str,
    pub unit: &'static str,
    /// The name of the measured value in a payload.
    pub payload_measure: &'static str,
}

impl ReportKind {
    /// Returns the kind of the diagnostic with a name, and whether it is the whole name that Apple's encoder writes.
    pub fn from_name(name: &str) -> Option<(ReportKind, bool)> {
        for (full, short, kind) in KNOWN_KINDS {
            if is_name(name.as_bytes(), full) {
                return Some((kind, true));
            }
            if is_name(name.as_bytes(), short) {
                return Some((kind, false));
            }
        }
        let is_other = name.len() <= NAME_BYTES_LIMIT
            && (name.ends_with("Diagnostic") || name.ends_with("_diagnostic"))
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_other.then(|| (ReportKind::Other(name.to_owned()), true))
    }

    /// Returns true for a kind of the documentation.
    pub fn is_known(&self) -> bool {
        !matches!(self, ReportKind::Other(_))
    }

    /// Returns the name of the member.
    pub fn key(&self) -> String {
        match self {
            ReportKind::Other(name) => name.clone(),
            ReportKind::Tree => "callStackTree".to_owned(),
            known => {
                let found = KNOWN_KINDS.into_iter().find(|(.., kind)| kind == known);
                found.map_or_else(String::new, |(name, ..)| name.to_owned())
            }
        }
    }

    /// Returns how a report with sampled stacks is read, or `None` for a kind with one stack for each thread.
    pub fn sampled(&self) -> Option<SampledKind> {
        let sampled = |list_key, measure, unit, payload_measure| SampledKind {
            list_key,
            measure,
            unit,
            payload_measure,
        };
        Some(match self {
            ReportKind::Hang => sampled("hangDiagnostics", "hangDuration", "ms", "hangDuration"),
            ReportKind::Cpu => sampled("cpuExceptionDiagnostics", "totalCPUTime", "s", "totalCPUTime"),
            ReportKind::DiskWrite => {
                sampled("diskWriteExceptionDiagnostics", "totalBytesWritten", "MB", "writesCaused")
            }
            ReportKind::Launch => sampled("appLaunchDiagnostics", "launchDuration", "ms", "launchDuration"),
            _ => return None,
        })
    }
}
