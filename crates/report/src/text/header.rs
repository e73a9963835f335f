//! The lines about the process and its end.

use super::log::Log;
use super::{address, shown, thread_index};
use crate::cursor::Value;
use crate::facts::Facts;
use crate::timestamp::device_time;
use std::fmt::Write;
use time::macros::format_description;

pub(super) fn header(facts: &Facts<'_, '_>, out: &mut Log) {
    let system = |key| shown(facts.system(key));
    let arch = facts.system("cpu_arch").and_then(Value::string).unwrap_or_default();
    let format = format_description!(
        "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3] [offset_hour sign:mandatory][offset_minute]"
    );
    let time = facts.header("timestamp").and_then(device_time).and_then(|time| time.format(&format).ok());
    let lines = [
        ("Incident Identifier", facts.report.id.to_string().to_uppercase()),
        ("CrashReporter Key", system("device_app_hash")),
        ("Hardware Model", system("machine")),
        ("Process", format!("{} [{}]", process_name(facts), system("process_id"))),
        ("Path", system("CFBundleExecutablePath")),
        ("Identifier", system("CFBundleIdentifier")),
        ("Version", format!("{} ({})", system("CFBundleShortVersionString"), system("CFBundleVersion"))),
        ("Code Type", code_type(&arch, true).into()),
        ("Role", "Foreground".into()),
        ("Parent Process", format!("launchd [{}]", system("parent_process_id"))),
        ("", String::new()),
        ("Date/Time", time.unwrap_or_else(|| "(null)".into())),
        (
            "OS Version",
            format!("{} {} ({})", system("system_name"), system("system_version"), system("os_version")),
        ),
        ("Report Version", "104".into()),
    ];
    for (name, value) in lines {
        if name.is_empty() {
            out.push('\n');
        } else {
            let _ = writeln!(out, "{:<20} {value}", format!("{name}:"));
        }
    }
}

fn process_name(facts: &Facts<'_, '_>) -> String {
    shown(facts.system("process_name").or_else(|| facts.header("process_name")))
}

/// The family of a CPU in Apple's words; the header has a word more for arm64e.
pub(super) fn code_type(arch: &str, in_header: bool) -> &'static str {
    match arch {
        arch if in_header && arch.starts_with("arm64e") => "ARM-64 (Native)",
        arch if arch.starts_with("arm64") => "ARM-64",
        arch if arch.starts_with("arm") => "ARM",
        "x86" | "i386" => "X86",
        "x86_64" | "x86_64h" => "X86_64",
        _ => "Unknown",
    }
}

pub(super) fn exception(facts: &Facts<'_, '_>, out: &mut Log) {
    let name = |path: &[&str]| facts.error(path).and_then(Value::string);
    let exception = name(&["mach", "exception_name"]).unwrap_or_else(|| "0".into());
    let signal = shown(facts.error(&["signal", "name"]).or_else(|| facts.error(&["signal", "signal"])));
    let code = name(&["mach", "code_name"]).unwrap_or_else(|| "0x00000000".into());
    let at = address(facts.error(&["address"])).unwrap_or(0);
    let _ = write!(out, "\nException Type:  {exception} ({signal})\nException Codes: {code} at {at:#018x}\n");
    if let Some(resource) = resource(facts) {
        let _ = writeln!(out, "Exception Subtype: {resource}");
    }
    let thread = facts.crashed_thread().map_or(0, thread_index);
    let _ = writeln!(out, "Triggered by Thread:  {thread}");
    information(facts, out);
    if facts.error(&["type"]).and_then(Value::text).is_some_and(|kind| kind.is("deadlock")) {
        out.push_str("\nApplication main thread deadlocked\n");
    }
}

/// What an `EXC_RESOURCE` is about: CPU use over a limit. The code holds the resource (bits 61–63), the
/// period in seconds (bits 7–31) and the limit in percent (bits 0–6), the subcode what was seen, as
/// `<kern/exc_resource.h>` packs them.
fn resource(facts: &Facts<'_, '_>) -> Option<String> {
    if facts.error(&["mach", "exception"])?.unsigned()? != 11 {
        return None;
    }
    let code = facts.error(&["mach", "code"])?.unsigned()?;
    let seen = facts.error(&["mach", "subcode"]).and_then(Value::unsigned).unwrap_or(0);
    if code >> 61 != 1 {
        return None;
    }
    let (limit, seconds) = (code & 0x7f, code >> 7 & 0x1ff_ffff);
    Some(format!("CPU_MONITOR\nLimit: {limit}%, observed: {}% over {seconds} seconds", seen & 0x7f))
}

fn information(facts: &Facts<'_, '_>, out: &mut Log) {
    let section = |key: &str| facts.error(&[key]).filter(|value| value.is_object());
    let reason = || facts.error(&["reason"]);
    if let Some(exception) = section("nsexception") {
        let reason = reason().or_else(|| exception.get("reason"));
        uncaught(exception.get("name"), reason, out);
    } else if let Some(exception) = zombie(facts) {
        uncaught(exception.get("name"), exception.get("reason"), out);
        out.push_str(
            "NOTE: This exception has been deallocated! Stack trace is crash from attempting to access \
             this zombie exception.\n",
        );
    } else if let Some(user) = section("user_reported") {
        uncaught(user.get("name"), reason(), out);
        custom_backtrace(user, out);
    } else if let Some(exception) = section("cpp_exception") {
        uncaught(exception.get("name"), reason(), out);
    }
}

fn uncaught(name: Option<Value<'_>>, reason: Option<Value<'_>>, out: &mut Log) {
    let (name, reason) = (shown(name), shown(reason));
    let _ = write!(
        out,
        "\nApplication Specific Information:\n*** Terminating app due to uncaught exception '{name}', reason: '{reason}'\n"
    );
}

fn custom_backtrace(user: Value<'_>, out: &mut Log) {
    let line = user.get("line_of_code").and_then(Value::string);
    let entries = user.get("backtrace").map(Value::items).unwrap_or_default();
    if line.is_none() && entries.is_empty() {
        return;
    }
    out.push_str("\nCustom Backtrace:\n");
    if let Some(line) = line {
        let _ = writeln!(out, "Line: {line}");
    }
    for entry in entries {
        if out.is_full() {
            return;
        }
        let text = entry.string().unwrap_or_else(|| String::from_utf8_lossy(entry.raw()).into_owned());
        let _ = writeln!(out, "{text}");
    }
    out.push('\n');
}

/// The exception that was deallocated, where the crash was an access to it: a bad access with the
/// exception's address in a register.
fn zombie<'a>(facts: &Facts<'_, 'a>) -> Option<Value<'a>> {
    let is = |key: &str, text| facts.error(&["mach", key]).and_then(Value::text).is_some_and(|t| t.is(text));
    if !is("exception_name", "EXC_BAD_ACCESS") || !is("code_name", "KERN_INVALID_ADDRESS") {
        return None;
    }
    let exception = facts.deallocated()?;
    let wanted = address(exception.get("address"))?;
    let mut found = false;
    facts.crashed_thread()?.path(&["registers", "basic"])?.each(|_, value| {
        found |= address(Some(value)) == Some(wanted);
    });
    found.then_some(exception)
}
