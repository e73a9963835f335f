//! `crash.error` in all its forms.

use super::Json;
use serde_json::{Value, json};

/// What a report tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A bad access, caught as a Mach exception.
    Mach,
    /// `abort`, caught as a signal.
    Signal,
    /// An Objective-C exception.
    NsException,
    /// A C++ exception.
    CppException,
    /// Reported by the app, with a backtrace of texts.
    User,
    /// Reported by a JavaScript bridge, with a backtrace of objects.
    UserObjects,
    /// The watchdog of old versions.
    Deadlock,
    /// A hang that ended by itself.
    Hang,
    /// A hang that the system ended, dressed up as a Mach exception.
    FatalHang,
    /// Out of memory, versions to 3.6.
    MemoryTermination,
    /// Ended by the system, 3.9.
    Termination,
    /// A sampling profile, without its frames.
    Profile,
    /// A plug-in monitor's own type.
    Plugin,
}

impl Error {
    /// Every form.
    pub const ALL: [Error; 13] = [
        Error::Mach,
        Error::Signal,
        Error::NsException,
        Error::CppException,
        Error::User,
        Error::UserObjects,
        Error::Deadlock,
        Error::Hang,
        Error::FatalHang,
        Error::MemoryTermination,
        Error::Termination,
        Error::Profile,
        Error::Plugin,
    ];

    /// `error.type`.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            Error::Mach | Error::FatalHang => "mach",
            Error::Signal => "signal",
            Error::NsException => "nsexception",
            Error::CppException => "cpp_exception",
            Error::User | Error::UserObjects => "user",
            Error::Deadlock => "deadlock",
            Error::Hang => "hang",
            Error::MemoryTermination => "memory_termination",
            Error::Termination => "termination",
            Error::Profile => "profile",
            Error::Plugin => "com.example.plugin",
        }
    }

    /// `report.monitor_id` of the versions that have one.
    #[must_use]
    pub fn monitor_id(self) -> &'static str {
        match self {
            Error::Mach => "MachException",
            Error::Signal => "Signal",
            Error::NsException => "NSException",
            Error::CppException => "CPPException",
            Error::User | Error::UserObjects => "UserReported",
            Error::Deadlock => "MainThreadDeadlock",
            Error::Hang | Error::FatalHang => "Watchdog",
            Error::MemoryTermination => "Resource",
            Error::Termination => "Termination",
            Error::Profile => "profile",
            Error::Plugin => "com.example.plugin",
        }
    }

    /// True if a report of this kind has threads.
    #[must_use]
    pub fn has_threads(self) -> bool {
        !matches!(self, Error::MemoryTermination | Error::Termination | Error::Profile)
    }

    /// The `crash.error` object.
    #[must_use]
    pub fn json(self) -> Json {
        let mut error = Json::object([("type", self.type_name())].map(|(k, v)| (k, Json::from(v))));
        let mut put = |path: &str, value: Json| *error.at(path) = value;
        if self == Error::Mach {
            put("address", Json::from(0x10));
            mach(&mut put, (1, "EXC_BAD_ACCESS"), (1, Some("KERN_INVALID_ADDRESS")));
            signal(&mut put, 11, "SIGSEGV", Some("SEGV_NOOP"));
            return error;
        }
        put("address", Json::from(0));
        match self {
            Error::MemoryTermination => {
                signal(&mut put, 9, "SIGKILL", None);
                put("memory_termination.memory_pressure", "critical".into());
                put("memory_termination.memory_level", "terminal".into());
                put("memory_termination.timestamp", Json::from(1_716_226_564_474_658_u64));
            }
            Error::Termination => {
                signal(&mut put, 9, "SIGKILL", None);
                put("termination_reason", "memory_limit".into());
            }
            Error::Profile => {
                put("profile.name", "launch".into());
                put("profile.time_units", "nanoseconds".into());
                put("profile.duration", Json::from(250_000_000));
            }
            _ => {
                mach(&mut put, (10, "EXC_CRASH"), (0, None));
                signal(&mut put, 6, "SIGABRT", None);
            }
        }
        match self {
            Error::NsException => {
                put("reason", "-[__NSArrayI objectForKey:]: unrecognized selector".into());
                put("nsexception.name", "NSInvalidArgumentException".into());
                put("nsexception.userInfo", Json::null());
            }
            Error::CppException => {
                put("reason", "Something bad happened...".into());
                put("cpp_exception.name", "11MyException".into());
            }
            Error::User | Error::UserObjects => {
                put("reason", "undefined is not a function".into());
                put("user_reported.name", "TypeError".into());
                put("user_reported.language", "JavaScript".into());
                put("user_reported.line_of_code", "render (app.js:12)".into());
                put("user_reported.backtrace", custom_backtrace(self == Error::UserObjects));
            }
            Error::Hang | Error::FatalHang => {
                put("hang.hang_start_nanos", Json::from(775_158_658_202_750_u64));
                put("hang.hang_end_nanos", Json::from(775_162_643_280_333_u64));
                put("hang.hang_start_role", "FOREGROUND_APPLICATION".into());
            }
            Error::Plugin => put("com-example-plugin.detail", "of its own".into()),
            _ => {}
        }
        if self == Error::FatalHang {
            put("exit_reason.code", Json::from(2_343_432_205_u64));
        }
        error
    }
}

/// `crash.error` of a hang that was sampled, with the positions of each sample's frames. What was sampled begins before
/// the hang.
#[must_use]
pub fn sampled_hang(millis: u64, frames: &Value, samples: &[Vec<usize>]) -> Value {
    let nanos = millis * 1_000_000;
    let samples: Vec<Value> = samples.iter().map(|frames| json!({"frames": frames})).collect();
    json!({"type": "hang",
        "hang": {"hang_start_nanos": 5, "hang_end_nanos": nanos + 5},
        "profile": {"name": "hang", "duration": 2 * nanos, "frames": frames, "samples": samples}})
}

fn mach(put: &mut impl FnMut(&str, Json), exception: (i32, &str), code: (i32, Option<&str>)) {
    put("mach.exception", exception.0.into());
    put("mach.exception_name", exception.1.into());
    put("mach.code", code.0.into());
    if let Some(name) = code.1 {
        put("mach.code_name", name.into());
    }
    put("mach.subcode", Json::from(0));
}

fn signal(put: &mut impl FnMut(&str, Json), number: i32, name: &str, code_name: Option<&str>) {
    put("signal.signal", number.into());
    put("signal.name", name.into());
    put("signal.code", Json::from(0));
    if let Some(name) = code_name {
        put("signal.code_name", name.into());
    }
}

fn custom_backtrace(objects: bool) -> Json {
    if !objects {
        return Json::array(["render@app.js:12:9", "main@app.js:40:1"].map(Json::from));
    }
    Json::array([("render", 12), ("main", 40)].map(|(method, line)| {
        Json::object([
            ("methodName", Json::from(method)),
            ("file", Json::from("app.js")),
            ("lineNumber", Json::from(line)),
            ("column", Json::from(9)),
        ])
    }))
}
