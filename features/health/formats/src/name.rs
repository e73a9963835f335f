//! The metrics that are counted, and their units.

unslide_model::words! {
    #[derive(PartialOrd, Ord)]
    pub enum MetricName {
        /// From the start of the process to the first frame.
        LaunchTime = "launch_time",
        /// From the start of the process to `main`, of a launch that read the app from disk.
        ColdLaunchBeforeMain = "cold_launch_before_main",
        /// From `main` to the first frame.
        ColdLaunchFirstFrame = "cold_launch_first_frame",
        /// From `main` until a person can use the app.
        ColdLaunchInteractive = "cold_launch_interactive",
        /// The same of launches with the app still in memory.
        WarmLaunchBeforeMain = "warm_launch_before_main",
        WarmLaunchFirstFrame = "warm_launch_first_frame",
        WarmLaunchInteractive = "warm_launch_interactive",
        /// The same of launches that the system prepared before a person asked for the app: it may have waited before
        /// `main` for any time.
        PrewarmedLaunchBeforeMain = "prewarmed_launch_before_main",
        PrewarmedLaunchFirstFrame = "prewarmed_launch_first_frame",
        PrewarmedLaunchInteractive = "prewarmed_launch_interactive",
        /// From the background to the first frame.
        ResumeTime = "resume_time",
        /// How long the main thread did not answer, each time.
        HangTime = "hang_time",
        /// Hangs in an hour on the screen, of one payload.
        HangRate = "hang_rate",
        /// From a page's request until it can be used.
        PageLoadTime = "page_load_time",
        /// Processor time of a period.
        CpuTime = "cpu_time",
        /// The same for each hour that the app ran.
        CpuTimePerHour = "cpu_time_per_hour",
        /// Time of the graphics processor in a period.
        GpuTime = "gpu_time",
        /// The same for each hour that the app ran.
        GpuTimePerHour = "gpu_time_per_hour",
        /// Time on the screen in a period.
        ForegroundTime = "foreground_time",
        /// Time in the background in a period.
        BackgroundTime = "background_time",
        /// Milliseconds of late frames in a second of animation.
        HitchRatio = "hitch_ratio",
        FrameRate = "frame_rate",
        /// The most memory in a period.
        PeakMemory = "peak_memory",
        /// Bytes written to disk in a period.
        DiskWrites = "disk_writes",
        /// The same for each hour that the app ran.
        DiskWritesPerHour = "disk_writes_per_hour",
        /// Bytes sent in a period.
        Upload = "upload",
        /// Bytes received in a period.
        Download = "download",
        /// Energy used in a period.
        Energy = "energy",
        /// The same for each hour that the app ran.
        EnergyPerHour = "energy_per_hour",
        /// Percent of the battery for each hour on the screen, without a charger.
        BatteryDrain = "battery_drain",
        /// Requests, and which of them failed. It has no values.
        Requests = "requests",
        /// A request's time in the queue of the client.
        RequestWait = "request_wait",
        /// A request's look-up of its host.
        RequestDns = "request_dns",
        /// A request's connection, without TLS.
        RequestConnect = "request_connect",
        RequestTls = "request_tls",
        /// From a request's first byte to the first byte of its answer.
        RequestFirstByte = "request_first_byte",
        /// A whole request, if its time is known.
        RequestTotal = "request_total",
        /// Bytes that a request sent, with its headers.
        RequestSent = "request_sent",
        /// Bytes that a request received, with its headers.
        RequestReceived = "request_received",
        RequestRedirects = "request_redirects",
    }
}

/// The unit in which a metric's values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    Milliseconds,
    Bytes,
    MillisecondsPerSecond,
    FramesPerSecond,
    Joules,
    MillisecondsPerHour,
    BytesPerHour,
    JoulesPerHour,
    PercentPerHour,
    PerHour,
    Count,
}

impl MetricUnit {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MetricUnit::Milliseconds => "ms",
            MetricUnit::Bytes => "B",
            MetricUnit::MillisecondsPerSecond => "ms/s",
            MetricUnit::FramesPerSecond => "fps",
            MetricUnit::Joules => "J",
            MetricUnit::MillisecondsPerHour => "ms/h",
            MetricUnit::BytesPerHour => "B/h",
            MetricUnit::JoulesPerHour => "J/h",
            MetricUnit::PercentPerHour => "%/h",
            MetricUnit::PerHour => "1/h",
            MetricUnit::Count => "1",
        }
    }

    /// Returns how many of this unit one of another is, by the other's symbol. Returns `None` if the two
    /// measure different things.
    #[must_use]
    pub fn conversion_factor(self, symbol: &str) -> Option<f64> {
        let known: &[(&str, f64)] = match self {
            MetricUnit::Milliseconds => &[("ms", 1.0), ("s", 1e3), ("us", 1e-3), ("min", 6e4), ("h", 3.6e6)],
            MetricUnit::Bytes => &[
                ("B", 1.0),
                ("kB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("KiB", 1_024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            MetricUnit::MillisecondsPerSecond => &[("ms/s", 1.0)],
            MetricUnit::FramesPerSecond => &[("fps", 1.0)],
            // No client sends these.
            MetricUnit::MillisecondsPerHour
            | MetricUnit::BytesPerHour
            | MetricUnit::JoulesPerHour
            | MetricUnit::PercentPerHour
            | MetricUnit::PerHour => &[],
            MetricUnit::Count => &[("1", 1.0)],
            MetricUnit::Joules => &[("J", 1.0), ("mJ", 1e-3), ("kJ", 1e3), ("Wh", 3_600.0), ("mWh", 3.6)],
        };
        known.iter().find(|(unit, _)| *unit == symbol).map(|(_, factor)| *factor)
    }
}

/// Returns true for a value that is counted: not negative, and not beyond the limit of any metric.
pub(super) fn is_countable(value: f64) -> bool {
    (0.0..=1e15).contains(&value)
}

impl MetricName {
    /// The metrics of one request: the times of its phases, and its sizes.
    pub const REQUEST_VALUES: [MetricName; 9] = [
        MetricName::RequestWait,
        MetricName::RequestDns,
        MetricName::RequestConnect,
        MetricName::RequestTls,
        MetricName::RequestFirstByte,
        MetricName::RequestTotal,
        MetricName::RequestSent,
        MetricName::RequestReceived,
        MetricName::RequestRedirects,
    ];

    /// Totals of a period, each with the metric of the same for each hour that the app ran.
    pub const PER_HOUR: [(MetricName, MetricName); 4] = [
        (MetricName::CpuTime, MetricName::CpuTimePerHour),
        (MetricName::GpuTime, MetricName::GpuTimePerHour),
        (MetricName::DiskWrites, MetricName::DiskWritesPerHour),
        (MetricName::Energy, MetricName::EnergyPerHour),
    ];

    /// Returns the unit in which its values are stored.
    #[must_use]
    pub fn unit(self) -> MetricUnit {
        match self {
            MetricName::HitchRatio => MetricUnit::MillisecondsPerSecond,
            MetricName::FrameRate => MetricUnit::FramesPerSecond,
            MetricName::Energy => MetricUnit::Joules,
            MetricName::HangRate => MetricUnit::PerHour,
            MetricName::CpuTimePerHour | MetricName::GpuTimePerHour => MetricUnit::MillisecondsPerHour,
            MetricName::DiskWritesPerHour => MetricUnit::BytesPerHour,
            MetricName::EnergyPerHour => MetricUnit::JoulesPerHour,
            MetricName::BatteryDrain => MetricUnit::PercentPerHour,
            MetricName::RequestRedirects => MetricUnit::Count,
            MetricName::RequestSent | MetricName::RequestReceived => MetricUnit::Bytes,
            MetricName::PeakMemory | MetricName::DiskWrites | MetricName::Upload | MetricName::Download => {
                MetricUnit::Bytes
            }
            _ => MetricUnit::Milliseconds,
        }
    }

    /// Returns true if more is better, false if less is, and `None` if neither is. Totals of periods alone
    /// say nothing, as periods are not of one length: see [`MetricName::PER_HOUR`].
    #[must_use]
    pub fn more_is_better(self) -> Option<bool> {
        match self {
            MetricName::ForegroundTime
            | MetricName::BackgroundTime
            | MetricName::Upload
            | MetricName::Download
            | MetricName::CpuTime
            | MetricName::GpuTime
            | MetricName::DiskWrites
            | MetricName::Energy
            | MetricName::RequestSent
            | MetricName::RequestReceived => None,
            metric => Some(metric == MetricName::FrameRate),
        }
    }

    /// Returns true for bytes that may be added up: what was sent, received or written.
    #[must_use]
    pub fn has_sum(self) -> bool {
        self.unit() == MetricUnit::Bytes && self != MetricName::PeakMemory
    }

    /// Returns true if it is computed from other metrics of a payload.
    #[must_use]
    pub fn is_derived(self) -> bool {
        matches!(self, MetricName::HangRate | MetricName::BatteryDrain)
            || MetricName::PER_HOUR.iter().any(|(_, rate)| *rate == self)
    }

    /// Returns true if it is counted for requests alone.
    #[must_use]
    pub fn is_of_requests(self) -> bool {
        self == MetricName::Requests || MetricName::REQUEST_VALUES.contains(&self)
    }
}
