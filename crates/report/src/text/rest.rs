//! Registers, images, and what follows the end of Apple's form.

use super::header::code_type;
use super::log::Log;
use super::{address, backtrace, shown, thread_index};
use crate::cursor::Value;
use crate::facts::Facts;
use std::fmt::Write;
use unslide_model::{CpuFamily, CpuType};

/// More than any CPU has.
const MOST_REGISTERS: usize = 256;

/// The registers of the thread that crashed, four a line, in a fixed order.
pub(super) fn registers(facts: &Facts<'_, '_>, out: &mut Log) {
    let Some(thread) = facts.crashed_thread() else { return };
    let Some(basic) = thread.path(&["registers", "basic"]) else { return };
    let mut registers = Vec::new();
    basic.each(|name, value| {
        if let Some(bits) = address(Some(value)).filter(|_| registers.len() < MOST_REGISTERS) {
            registers.push((String::from_utf8_lossy(name).into_owned(), bits));
        }
    });
    if registers.is_empty() {
        return;
    }
    registers.sort_by_cached_key(|(name, _)| rank(name));
    let arch = facts.system("cpu_arch").and_then(Value::string).unwrap_or_default();
    let family = facts.part().and_then(|part| part.binary_cpu.or(part.cpu)).map(CpuType::family);
    let cpu = match family {
        Some(CpuFamily::Arm64 | CpuFamily::Arm64_32) => "ARM-64",
        Some(CpuFamily::Arm) => "ARM",
        Some(CpuFamily::X86_64) => "X86_64",
        Some(CpuFamily::X86) => "X86",
        Some(CpuFamily::Other) | None => code_type(&arch, false),
    };
    let _ = writeln!(out, "\nThread {} crashed with {cpu} Thread State:", thread_index(thread));
    for four in registers.chunks(4) {
        for (name, bits) in four {
            let _ = write!(out, "{name:>6}: {bits:#018x} ");
        }
        out.push('\n');
    }
}

/// The order of registers: the numbered ones by their number, then the order in which a CPU's
/// manual names the others. From the eighth on, the numbered ones of 64-bit Intel follow the named.
fn rank(name: &str) -> (usize, usize, String) {
    const NAMED: &str = "eax ebx ecx edx edi esi ebp esp ss eflags eip rax rbx rcx rdx rdi rsi rbp rsp \
        r8 r9 r10 r11 r12 r13 r14 r15 rip rflags ip fp lr sp pc cpsr cs ds es fs gs";
    let number = |prefix: char| name.strip_prefix(prefix)?.parse::<usize>().ok();
    if let Some(number) = number('x').or_else(|| number('r').filter(|number| *number < 8)) {
        return (0, number, String::new());
    }
    match NAMED.split_whitespace().position(|known| known == name) {
        Some(place) => (1, place, String::new()),
        None => (2, 0, name.to_owned()),
    }
}

/// The images that the part's frames refer to, by address.
pub(super) fn images(facts: &Facts<'_, '_>, out: &mut Log) {
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
        let path = image.name.map_or_else(|| "(null)".into(), crate::Text::decode);
        let name = path.rsplit('/').next().unwrap_or_default();
        let arch = image.cpu.map_or("unknown", CpuType::name);
        let uuid = image.uuid.map_or_else(|| "(null)".into(), |uuid| uuid.compact());
        let _ = writeln!(out, "{start:#x} - {end:#x} {name} {arch}  <{uuid}> {path}");
    }
    out.push_str("\nEOF\n\n");
}

/// What only KSCrash's form has.
pub(super) fn extra(facts: &Facts<'_, '_>, out: &mut Log) {
    out.push_str("\nExtra Information:\n");
    let mut block = |title: &str, value: Option<Value<'_>>| {
        if let Some(value) = value.filter(|value| value.is_object()) {
            let _ = write!(out, "\n{title}:\n");
            pretty(value, 0, out);
            out.push('\n');
        }
    };
    block("Object referenced by NSException", facts.error(&["nsexception", "referenced_object"]));
    let thread = facts.crashed_thread();
    block("Notable Addresses", thread.and_then(|thread| thread.get("notable_addresses")));
    block("Application Stats", facts.system("application_stats"));
    block("Memory Statistics", facts.system("app_memory"));
    if let Some(stack) = thread.and_then(|thread| thread.get("stack")).filter(|stack| stack.is_object()) {
        let edge = |key| address(stack.get(key)).unwrap_or(0);
        let (start, end) = (edge("dump_start"), edge("dump_end"));
        let _ =
            write!(out, "\nStack Dump ({start:#018x}-{end:#018x}):\n\n{}\n", shown(stack.get("contents")));
    }
    if let Some(exception) = facts.deallocated() {
        let at = address(exception.get("address")).unwrap_or(0);
        let (name, reason) = (shown(exception.get("name")), shown(exception.get("reason")));
        let _ = writeln!(out, "\nLast deallocated NSException ({at:#018x}): {name}: {reason}");
        backtrace::deallocated(facts, out);
    }
    diagnosis(facts, "CrashDoctor Diagnosis", out);
}

pub(super) fn diagnosis(facts: &Facts<'_, '_>, title: &str, out: &mut Log) {
    if let Some(text) = facts.crash().and_then(|crash| crash.get("diagnosis")).and_then(Value::string) {
        let _ = writeln!(out, "\n{title}: {text}");
    }
}

/// The value with four spaces a level, objects in the order of their keys. The scanner has bounded
/// the depth of what gets here.
fn pretty(value: Value<'_>, level: usize, out: &mut Log) {
    let mut members: Vec<(String, Value<'_>)> = Vec::new();
    value.each(|key, value| {
        if out.member() {
            members.push((String::from_utf8_lossy(key).into_owned(), value));
        }
    });
    members.sort_by(|a, b| a.0.cmp(&b.0));
    let items = value.items();
    if members.is_empty() && items.is_empty() {
        out.push_str(&String::from_utf8_lossy(value.raw()));
        return;
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    let named = members.into_iter().map(|(key, value)| (Some(key), value));
    let inside = "    ".repeat(level + 1);
    out.push(open);
    for (index, (key, value)) in named.chain(items.into_iter().map(|item| (None, item))).enumerate() {
        if out.is_full() {
            return;
        }
        let _ = write!(out, "{}\n{inside}", if index > 0 { "," } else { "" });
        if let Some(key) = key {
            let _ = write!(out, "\"{key}\": ");
        }
        pretty(value, level + 1, out);
    }
    let _ = write!(out, "\n{}{close}", "    ".repeat(level));
}
