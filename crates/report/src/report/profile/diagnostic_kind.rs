//! Kinds of MetricKit diagnostics.

use crate::json::Value;

/// A diagnostic with sampled stacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diagnostic {
    pub(crate) kind: DiagnosticKind,
    /// The offset of its `diagnosticMetaData`.
    pub(crate) metadata: Option<usize>,
}

/// The kind of a MetricKit diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticKind {
    /// The main thread did not answer.
    Hang,
    /// The app used much CPU time.
    Cpu,
    /// The app wrote much to disk.
    DiskWrite,
    /// The app took a long time to start.
    Launch,
}

impl DiagnosticKind {
    const ALL: [DiagnosticKind; 4] =
        [DiagnosticKind::Hang, DiagnosticKind::Cpu, DiagnosticKind::DiskWrite, DiagnosticKind::Launch];

    /// Returns the kind in a word, used as the report's `crash.error.type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DiagnosticKind::Hang => "hang",
            DiagnosticKind::Cpu => "cpu",
            DiagnosticKind::DiskWrite => "disk_write",
            DiagnosticKind::Launch => "launch",
        }
    }

    /// Returns the kind of a list in a payload, or `None` for crashes and other members.
    pub(crate) fn from_payload_key(key: &[u8]) -> Option<DiagnosticKind> {
        Some(match key {
            b"hangDiagnostics" => DiagnosticKind::Hang,
            b"cpuExceptionDiagnostics" => DiagnosticKind::Cpu,
            b"diskWriteExceptionDiagnostics" => DiagnosticKind::DiskWrite,
            b"appLaunchDiagnostics" => DiagnosticKind::Launch,
            _ => return None,
        })
    }

    /// Returns the kind that has this key for its measured value in `diagnosticMetaData`.
    #[must_use]
    pub fn from_measure_key(key: &str) -> Option<DiagnosticKind> {
        DiagnosticKind::ALL.into_iter().find(|kind| kind.measure_key() == key)
    }

    /// Returns the kind of a single diagnostic, by the key of its measured value.
    pub(crate) fn from_metadata(input: &[u8], at: usize) -> Option<DiagnosticKind> {
        let metadata = Value::from_offset(input, at);
        DiagnosticKind::ALL.into_iter().find(|kind| metadata.get(kind.measure_key()).is_some())
    }

    /// Returns the key of the measured value.
    pub(super) fn measure_key(self) -> &'static str {
        match self {
            DiagnosticKind::Hang => "hangDuration",
            DiagnosticKind::Cpu => "totalCPUTime",
            DiagnosticKind::DiskWrite => "writesCaused",
            DiagnosticKind::Launch => "launchDuration",
        }
    }
}
