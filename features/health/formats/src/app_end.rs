//! Ends of an app by cause, as MetricKit counts them in a period.

unslide_model::words! {
    /// The cause of an end, by the names of MetricKit since iOS 27.
    #[derive(PartialOrd, Ord)]
    pub enum AppEndCause {
        Normal = "normal",
        /// The app was over its memory limit.
        MemoryLimit = "memory_limit",
        /// The system needed memory for others.
        SystemPressure = "system_pressure",
        BadAccess = "bad_access",
        Abnormal = "abnormal",
        IllegalInstruction = "illegal_instruction",
        Watchdog = "watchdog",
        HighCpu = "high_cpu",
        /// The app held a file locked while it was suspended.
        FileLock = "file_lock",
        /// A background task took too long.
        TaskTimeout = "task_timeout",
    }
}

impl AppEndCause {
    /// Returns true for an end for lack of memory.
    #[must_use]
    pub fn is_memory(self) -> bool {
        matches!(self, AppEndCause::MemoryLimit | AppEndCause::SystemPressure)
    }
}

/// Ends of one cause in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppEnds {
    /// True if the app was on the screen.
    pub foreground: bool,
    pub cause: AppEndCause,
    pub count: u32,
}
