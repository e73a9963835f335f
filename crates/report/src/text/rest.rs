//! Registers, images, and the part after the end of Apple's format.

use super::crash::{Crash, Thread};
use super::header::code_type;
use super::log::Log;
use super::{
    backtrace, escape_line, escaped_file_name, escaped_text, format_raw, format_string, format_value,
    read_address,
};
use crate::json::Value;
use crate::json::{JsonScanner, Stop};
use crate::report::Report;
use crate::report::context::{CorpseFact, CorpseValue};
use crate::report::summary::facts::PartFacts;
use std::fmt::Write;
use unslide_model::{CpuFamily, CpuType};

/// The maximum number of registers. No CPU has more.
const MOST_REGISTERS: usize = 256;
/// The maximum number of levels of a value that get separate lines.
const MOST_LEVELS: usize = 256;
/// The number of levels with sorted objects. Sorting costs one pass over the contents of each object.
const SORTED_LEVELS: usize = 8;
/// The maximum number of members in a sorted object.
const MOST_SORTED: usize = 4096;

/// Writes the registers of the crashed thread, four per line, in a fixed order.
pub(super) fn write_registers(facts: &PartFacts<'_, '_>, crash: &Crash<'_>, out: &mut Log) {
    let Some(thread) = &crash.subject else { return };
    let registers = sorted_registers(thread);
    if registers.is_empty() {
        return;
    }
    let [arch] = facts.system_members(["cpu_arch"]);
    let arch = format_string(arch).unwrap_or_default();
    let family = facts.part().and_then(|part| part.binary_cpu.or(part.cpu)).map(CpuType::family);
    let cpu = match family {
        Some(CpuFamily::Arm64 | CpuFamily::Arm64_32) => "ARM-64",
        Some(CpuFamily::Arm) => "ARM",
        Some(CpuFamily::X86_64) => "X86_64",
        Some(CpuFamily::X86) => "X86",
        Some(CpuFamily::Other) | None => code_type(&arch, false),
    };
    let _ = writeln!(out, "\nThread {} crashed with {cpu} Thread State:", thread.number);
    for four in registers.chunks(4) {
        for (name, bits) in four {
            let _ = write!(out, "{name:>6}: {bits:#018x} ");
        }
        out.push('\n');
    }
}

/// Returns the registers of a thread with their values, in a fixed order.
pub(super) fn sorted_registers(thread: &Thread<'_>) -> Vec<(String, u64)> {
    let mut registers = Vec::new();
    let Some(basic) = thread.registers else { return registers };
    basic.each_member(|name, value| {
        if let Some(bits) = read_address(Some(value)).filter(|_| registers.len() < MOST_REGISTERS) {
            registers.push((escape_line(&String::from_utf8_lossy(name)).into_owned(), bits));
        }
    });
    registers.sort_by_cached_key(|(name, _)| rank_register(name));
    registers
}

/// Returns the sort key of a register: first `x0`, `x1`, … and `r0` to `r7` by number, then the names below in the
/// order of a CPU's manual, then all others by name.
fn rank_register(name: &str) -> (usize, usize, String) {
    const NAMED_REGISTERS: &str = "eax ebx ecx edx edi esi ebp esp ss eflags eip rax rbx rcx rdx rdi rsi rbp rsp \
        r8 r9 r10 r11 r12 r13 r14 r15 rip rflags ip fp lr sp pc cpsr cs ds es fs gs";
    let number = |prefix: char| name.strip_prefix(prefix)?.parse::<usize>().ok();
    if let Some(number) = number('x').or_else(|| number('r').filter(|number| *number < 8)) {
        return (0, number, String::new());
    }
    match NAMED_REGISTERS.split_whitespace().position(|known| known == name) {
        Some(place) => (1, place, String::new()),
        None => (2, 0, name.to_owned()),
    }
}

/// Writes the images that the part's frames refer to, by address.
pub(super) fn write_images(facts: &PartFacts<'_, '_>, out: &mut Log) {
    out.push_str("\nBinary Images:\n");
    let source = facts.part().and_then(|part| facts.report.parts.get(part.image_source?));
    let mut images: Vec<_> = source
        .map(|part| part.images.iter().collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .map(|image| (image.addr.and_then(crate::Number::to_bits).unwrap_or(0), image))
        .collect();
    images.sort_by_key(|(address, _)| *address);
    for (start, image) in images {
        if out.is_full() {
            return;
        }
        let end = start.wrapping_add(image.size.max(1) - 1);
        let path = image.name.map_or("(null)".into(), escaped_text);
        let name = image.name.map_or("(null)".into(), escaped_file_name);
        let arch = image.cpu.map_or("unknown", CpuType::name);
        let uuid = image.uuid.map_or_else(|| "(null)".into(), |uuid| uuid.to_compact());
        let _ = writeln!(out, "{start:#x} - {end:#x} {name} {arch}  <{uuid}> {path}");
    }
    out.push_str("\nEOF\n\n");
}

/// Writes the information that only KSCrash's format has.
pub(super) fn write_extra(facts: &PartFacts<'_, '_>, crash: &Crash<'_>, out: &mut Log) {
    out.push_str("\nExtra Information:\n");
    missing_symbols(facts.report, out);
    let mut block = |title: &str, value: Option<Value<'_>>| {
        if let Some(value) = value.filter(|value| value.is_object()) {
            let _ = write!(out, "\n{title}:\n");
            write_pretty(value, 0, out);
            out.push('\n');
        }
    };
    let thread = crash.subject.as_ref();
    let [stats, memory] = facts.system_members(["application_stats", "app_memory"]);
    block("Object referenced by NSException", facts.error_member(&["nsexception", "referenced_object"]));
    block("Notable Addresses", thread.and_then(|thread| thread.notable_addresses));
    block("Application Stats", stats);
    block("Memory Statistics", memory);
    write_corpse(facts.report, out);
    if let Some(stack) = thread.and_then(|thread| thread.stack).filter(|stack| stack.is_object()) {
        let [start, end, contents] = stack.find_members(["dump_start", "dump_end", "contents"]);
        let [start, end] = [start, end].map(|edge| read_address(edge).unwrap_or(0));
        let _ = write!(out, "\nStack Dump ({start:#018x}-{end:#018x}):\n\n{}\n", format_value(contents));
    }
    if let Some(exception) = facts.deallocated_exception() {
        let [at, name, reason] = exception.find_members(["address", "name", "reason"]);
        let at = read_address(at).unwrap_or(0);
        let (name, reason) = (format_value(name), format_value(reason));
        let _ = writeln!(out, "\nLast deallocated NSException ({at:#018x}): {name}: {reason}");
        backtrace::write_deallocated(facts, out);
    }
    write_diagnosis(crash, "CrashDoctor Diagnosis", out);
}

/// Writes the facts of the snapshot of a process that has ended.
fn write_corpse(report: &Report<'_>, out: &mut Log) {
    let facts = report.read_corpse();
    if !facts.is_empty() {
        out.push_str("\nEnded Process:\n");
    }
    for CorpseFact { name, value } in facts {
        let _ = match value {
            CorpseValue::Bytes(bytes) => writeln!(out, "{name}: {bytes} bytes"),
            CorpseValue::Number(number) => writeln!(out, "{name}: {number}"),
            CorpseValue::Text(text) => writeln!(out, "{name}: {text}"),
        };
    }
}

/// Lists the app's images that lack symbols for a frame, so that the reader knows which to upload.
fn missing_symbols(report: &Report<'_>, out: &mut Log) {
    let images = report.ours.iter().flat_map(|ours| &ours.images);
    for (number, image) in images.filter(|image| image.lacks_symbols()).enumerate() {
        if number == 0 {
            out.push_str("\nMissing Symbols of the App:\n");
        }
        let name = image.name.as_deref().map_or("(null)".into(), escape_line);
        let id = image.debug_id.map_or_else(|| "without a UUID".to_owned(), |id| id.to_string());
        let why = if image.stripped { "stripped" } else { image.status.as_str() };
        let _ = writeln!(out, "{name} {id} ({})", escape_line(why));
    }
}

pub(super) fn write_diagnosis(crash: &Crash<'_>, title: &str, out: &mut Log) {
    if let Some(text) = format_string(crash.diagnosis) {
        let _ = writeln!(out, "\n{title}: {text}");
    }
}

/// Writes a value with four spaces per level and objects in the order of their keys. At deep levels and in very large
/// objects the order is that of the report, so that each byte is read only a few times.
fn write_pretty(value: Value<'_>, level: usize, out: &mut Log) {
    let mut members = Vec::new();
    if level >= SORTED_LEVELS || out.is_full() || !value.is_container() {
        // The bytes have passed the scanner, so there can be no error.
        let _: Result<(), Stop> = write_streamed(&mut value.scanner(), level, out);
        return;
    }
    if value.is_object() {
        value.each_member(|key, value| {
            if members.len() <= MOST_SORTED {
                members.push((String::from_utf8_lossy(key).into_owned(), value));
            }
        });
        if members.len() > MOST_SORTED {
            let _: Result<(), Stop> = write_streamed(&mut value.scanner(), level, out);
            return;
        }
        members.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let mut lines = Lines::open(value.is_object(), level);
    for (key, value) in members {
        lines.next(Some(&key), out);
        write_pretty(value, level + 1, out);
    }
    value.each_item(|item| {
        lines.next(None, out);
        write_pretty(item, level + 1, out);
    });
    lines.close(out);
}

/// Works as [`write_pretty`], in the order of the report. Reads the value at the scanner's position.
fn write_streamed(s: &mut JsonScanner<'_>, level: usize, out: &mut Log) -> Result<(), Stop> {
    let value = s.current_value();
    if out.is_full() || level >= MOST_LEVELS || !value.is_container() {
        s.skip_value()?;
        if !out.is_full() {
            out.push_str(&format_raw(value));
        }
        return Ok(());
    }
    let mut lines = Lines::open(value.is_object(), level);
    if value.is_object() {
        s.read_members(|s, member| {
            lines.next(Some(&String::from_utf8_lossy(&member.key)), out);
            write_streamed(s, level + 1, out)
        })?;
    } else {
        s.read_elements(|s, _| {
            lines.next(None, out);
            write_streamed(s, level + 1, out)
        })?;
    }
    lines.close(out);
    Ok(())
}

/// The lines of an object or array.
struct Lines {
    object: bool,
    level: usize,
    any: bool,
}

impl Lines {
    fn open(object: bool, level: usize) -> Lines {
        Lines { object, level, any: false }
    }

    /// Writes the text before a value.
    fn next(&mut self, key: Option<&str>, out: &mut Log) {
        if out.is_full() {
            return;
        }
        let before = match (std::mem::replace(&mut self.any, true), self.object) {
            (true, _) => ",",
            (false, true) => "{",
            (false, false) => "[",
        };
        let _ = write!(out, "{before}\n{:indent$}", "", indent = 4 * (self.level + 1));
        if let Some(key) = key {
            let _ = write!(out, "\"{}\": ", escape_line(key));
        }
    }

    fn close(self, out: &mut Log) {
        if self.any {
            let _ = write!(out, "\n{:indent$}", "", indent = 4 * self.level);
        } else {
            out.push(if self.object { '{' } else { '[' });
        }
        out.push(if self.object { '}' } else { ']' });
    }
}
