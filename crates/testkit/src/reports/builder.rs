//! One report, as a builder.

use super::{Error, Frame, Image, Json, Style, Thread, backtrace};

/// A report that is being built: a JSON document and the white space to write it with.
#[derive(Clone, Debug)]
pub struct Report {
    document: Json,
    style: Style,
}

impl Report {
    /// A standard report of version 3.6.0 about a bad access, with no images and no threads.
    /// The same for every call.
    #[must_use]
    pub fn standard() -> Report {
        let mut document = Json::object(
            ["report", "binary_images", "process", "system", "crash", "user", "debug"]
                .map(|section| (section, Json::Object(Vec::new()))),
        );
        *document.at("binary_images") = Json::array([]);
        *document.at("crash.error") = Error::Mach.json();
        *document.at("crash.threads") = Json::array([]);
        *document.at("debug.console_log") = Json::array([]);
        Report { document, style: Style::Pretty }
            .version("3.6.0")
            .id("EC55B54F-1963-41AB-A65F-E0F98EF29DFB")
            .set("report.process_name", "Shop")
            .set("report.timestamp", Json::from(1_763_632_800_000_000_u64))
            .set("report.type", "standard")
            .app("com.example.shop", "1.2.3", "45")
            .system()
    }

    /// A report with nothing in it.
    #[must_use]
    pub fn empty() -> Report {
        Report { document: Json::Object(Vec::new()), style: Style::Compact }
    }

    fn system(self) -> Report {
        self.set("system.CFBundleName", "Shop")
            .set("system.CFBundleExecutable", "Shop")
            .set("system.CFBundleExecutablePath", "/private/var/containers/Bundle/Application/Shop.app/Shop")
            .set("system.process_name", "Shop")
            .set("system.process_id", Json::from(862))
            .set("system.parent_process_id", Json::from(1))
            .set("system.system_name", "iOS")
            .set("system.system_version", "17.0.1")
            .set("system.os_version", "21A340")
            .set("system.kernel_version", "Darwin Kernel Version 23.0.0")
            .set("system.machine", "iPhone15,2")
            .set("system.model", "D73AP")
            .set("system.cpu_arch", "arm64e")
            .set("system.cpu_type", Json::from(16_777_228))
            .set("system.cpu_subtype", Json::from(2))
            .set("system.binary_cpu_type", Json::from(16_777_228))
            .set("system.binary_cpu_subtype", Json::from(0))
            .set("system.proc_translated", false)
            .set("system.jailbroken", false)
            .set("system.time_zone", "PST")
            .set("system.build_type", "app store")
            .set("system.device_app_hash", "0308d5c6e6b4e172c59da6d76ff0e1636a5ce591")
            .set("system.boot_time", "2025-11-19T08:00:00Z")
            .set("system.app_start_time", "2025-11-20T09:59:00Z")
            .set("system.memory.size", Json::from(5_926_354_944_u64))
            .set("system.application_stats.application_active", true)
            .set("system.application_stats.active_time_since_launch", Json::Raw("13.7945".into()))
    }

    /// Sets the member at a path (`crash.error.type`, `crash.threads.0.name`) to any value.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Json>) -> Report {
        *self.document.at(path) = value.into();
        self
    }

    /// Takes the member at a path away.
    #[must_use]
    pub fn without(mut self, path: &str) -> Report {
        self.document.remove(path);
        self
    }

    /// Appends a member to the object at a path, even if it has one of that name.
    #[must_use]
    pub fn duplicate(mut self, path: &str, key: &str, value: impl Into<Json>) -> Report {
        self.document.at(path).append(key, value.into());
        self
    }

    /// `report.id`.
    #[must_use]
    pub fn id(self, id: &str) -> Report {
        self.set("report.id", id)
    }

    /// `report.version`: an object for two numbers (`2.0`), else a string.
    #[must_use]
    pub fn version(self, version: &str) -> Report {
        match version.split_once('.') {
            Some((major, minor)) if !minor.contains('.') => self
                .set("report.version", Json::Object(Vec::new()))
                .set("report.version.major", Json::Raw(major.into()))
                .set("report.version.minor", Json::Raw(minor.into())),
            _ => self.set("report.version", version),
        }
    }

    /// The app's bundle id, marketing version and build.
    #[must_use]
    pub fn app(self, bundle: &str, version: &str, build: &str) -> Report {
        self.set("system.CFBundleIdentifier", bundle)
            .set("system.CFBundleShortVersionString", version)
            .set("system.CFBundleVersion", build)
    }

    /// `crash.error`.
    #[must_use]
    pub fn error(self, error: Error) -> Report {
        self.set("crash.error", error.json())
    }

    /// Appends to `binary_images`.
    #[must_use]
    pub fn image(mut self, image: Image) -> Report {
        self.document.at("binary_images").push(image.0);
        self
    }

    /// Appends each to `binary_images`.
    #[must_use]
    pub fn images(self, images: impl IntoIterator<Item = Image>) -> Report {
        images.into_iter().fold(self, Report::image)
    }

    /// Appends to `crash.threads`.
    #[must_use]
    pub fn thread(mut self, thread: Thread) -> Report {
        self.document.at("crash.threads").push(thread.0);
        self
    }

    /// Appends a crashed thread with these frames, and with registers: the program counter is the first
    /// frame's address.
    #[must_use]
    pub fn crashed_at(self, addresses: impl IntoIterator<Item = u64>) -> Report {
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let pc = addresses.first().copied().unwrap_or(0);
        let frames = addresses.into_iter().map(Frame::at);
        self.thread(Thread::new(0).crashed().frames(frames).registers([("sp", 0x1_6fdf_e000), ("pc", pc)]))
    }

    /// `crash.crashed_thread`, as a minimal report has it instead of `threads`.
    #[must_use]
    pub fn crashed_thread(self, thread: Thread) -> Report {
        self.set("crash.crashed_thread", thread.0).without("crash.threads")
    }

    /// `crash.last_exception_backtrace`.
    #[must_use]
    pub fn last_exception(self, frames: impl IntoIterator<Item = Frame>) -> Report {
        self.set("crash.last_exception_backtrace", backtrace(frames))
    }

    /// `process.last_dealloced_nsexception` with a backtrace.
    #[must_use]
    pub fn deallocated_exception(self, address: u64, frames: impl IntoIterator<Item = Frame>) -> Report {
        self.set("process.last_dealloced_nsexception.address", address)
            .set("process.last_dealloced_nsexception.name", "NSRangeException")
            .set("process.last_dealloced_nsexception.reason", "index 4 beyond bounds")
            .set("process.last_dealloced_nsexception.backtrace", backtrace(frames))
    }

    /// `crash.error.profile.frames`.
    #[must_use]
    pub fn profile_frames(self, frames: impl IntoIterator<Item = Frame>) -> Report {
        let frames = frames.into_iter().map(|frame| frame.0);
        self.error(Error::Profile)
            .set("report.monitor_id", "profile")
            .set("crash.error.profile.frames", Json::array(frames))
    }

    /// `recrash_report`: another report inside this one.
    #[must_use]
    pub fn recrash(self, inner: Report) -> Report {
        self.set("recrash_report", inner.document)
    }

    /// Moves `binary_images` behind `crash`, as the compact mode of new versions writes them.
    #[must_use]
    pub fn images_last(mut self) -> Report {
        let images = self.document.at("binary_images").clone();
        self.document.remove("binary_images");
        self.set("binary_images", images)
    }

    /// Orders every object by key, as the HTTP sink does.
    #[must_use]
    pub fn sorted(mut self) -> Report {
        self.document.sort();
        self
    }

    /// The white space to write it with.
    #[must_use]
    pub fn style(mut self, style: Style) -> Report {
        self.style = style;
        self
    }

    /// The document.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.document
    }

    /// The report's bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.document.write(self.style)
    }
}

/// A record of several reports, as the HTTP sink sends them.
#[must_use]
pub fn record<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Vec<u8> {
    Json::array(reports.into_iter().map(|report| report.document.clone())).write(Style::Compact)
}
