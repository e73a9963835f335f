//! Signals of apps.

crate::words! {
    /// A signal that can be switched off. Crashes cannot.
    #[derive(PartialOrd, Ord)]
    pub enum AppSignal {
        /// Reports of hangs, slow launches, much use of a processor and many writes, and profiles.
        Hangs = "hangs",
        /// Errors from JavaScript, as React Native reports them.
        Javascript = "javascript",
        /// Errors that an app reports itself, and survives.
        Errors = "errors",
        /// Memory warnings and ends out of memory.
        Memory = "memory",
        /// Session events: begins and ends.
        Sessions = "sessions",
        /// Metric payloads of MetricKit or of Unslide's own form.
        Metrics = "metrics",
        /// Captures: profiles, logs of allocations and memory graphs.
        Captures = "captures",
    }
}

impl AppSignal {
    /// Returns the signal of reports with this kind of group; `None` for crashes and other kinds that are
    /// always kept.
    #[must_use]
    pub fn from_group_kind(kind: &str) -> Option<AppSignal> {
        match kind {
            "hang" | "cpu" | "disk_write" | "launch" | "profile" => Some(AppSignal::Hangs),
            "javascript" => Some(AppSignal::Javascript),
            "user" => Some(AppSignal::Errors),
            "out_of_memory" | "memory_warning" => Some(AppSignal::Memory),
            _ => None,
        }
    }
}
