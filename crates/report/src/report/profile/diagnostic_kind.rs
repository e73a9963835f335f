//! What a diagnostic of MetricKit is about.

use crate::json::Value;

/// A diagnostic that was sampled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diagnostic {
    pub(crate) kind: DiagnosticKind,
    /// Where its `diagnosticMetaData` begins.
    pub(crate) metadata: Option<usize>,
}

/// What a diagnostic of MetricKit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticKind {
    /// The main thread did not answer.
    Hang,
    /// The app used much of a processor.
    Cpu,
    /// The app wrote much.
    DiskWrite,
    /// The app took long to start.
    Launch,
}

impl DiagnosticKind {
    const ALL: [DiagnosticKind; 4] =
        [DiagnosticKind::Hang, DiagnosticKind::Cpu, DiagnosticKind::DiskWrite, DiagnosticKind::Launch];

    /// The kind in a word, which stands for the report's `crash.error.type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DiagnosticKind::Hang => "hang",
            DiagnosticKind::Cpu => "cpu",
            DiagnosticKind::DiskWrite => "disk_write",
            DiagnosticKind::Launch => "launch",
        }
    }

    /// The kind of a list in a payload; `None` for crashes and for other members.
    pub(crate) fn of_payload(key: &[u8]) -> Option<DiagnosticKind> {
        Some(match key {
            b"hangDiagnostics" => DiagnosticKind::Hang,
            b"cpuExceptionDiagnostics" => DiagnosticKind::Cpu,
            b"diskWriteExceptionDiagnostics" => DiagnosticKind::DiskWrite,
            b"appLaunchDiagnostics" => DiagnosticKind::Launch,
            _ => return None,
        })
    }

    /// The kind of the measure with this key in a diagnostic's `diagnosticMetaData`.
    #[must_use]
    pub fn of_measure(key: &str) -> Option<DiagnosticKind> {
        DiagnosticKind::ALL.into_iter().find(|kind| kind.measure() == key)
    }

    /// The kind of a diagnostic alone, by what was measured.
    pub(crate) fn of_metadata(input: &[u8], at: usize) -> Option<DiagnosticKind> {
        let metadata = Value::at(input, at);
        DiagnosticKind::ALL.into_iter().find(|kind| metadata.get(kind.measure()).is_some())
    }

    /// The member that says how much of it there was.
    pub(super) fn measure(self) -> &'static str {
        match self {
            DiagnosticKind::Hang => "hangDuration",
            DiagnosticKind::Cpu => "totalCPUTime",
            DiagnosticKind::DiskWrite => "writesCaused",
            DiagnosticKind::Launch => "launchDuration",
        }
    }
}
