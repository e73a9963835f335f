//! The sections of one part: the outer report, or a `recrash_report` with everything in it.
//!
//! Every section is read into a separate value and then moved into place, so that a duplicate key
//! leaves nothing of its first value behind.

use super::diagnostics::Diagnostics;
use super::frames;
use super::memory::{self, JoinedMemory, MemorySection};
use crate::image_message::ImageMessage;
use crate::json::{JsonScanner, MemberSlots, PassedObject, Stop, cpu_from_header, debug_id};
use crate::report::{Backtrace, BacktraceOrigin, Image, Invalid, ReportPart, Sections};
use crate::{Text, WarningKind};
use std::ops::Range;
use unslide_model::{CpuType, DebugId, ReportId};

/// The maximum number of `recrash_report` levels below the outer report.
const RECRASH_LEVELS: usize = 4;

/// One part and the parts in it.
pub(crate) struct ReadPart<'a> {
    pub(crate) part: ReportPart<'a>,
    pub(crate) backtraces: Vec<Backtrace<'a>>,
    pub(crate) invalid: Invalid,
    pub(crate) inner: Option<Box<ReadPart<'a>>>,
    /// The offset of the closing brace of the part's object.
    pub(crate) close: usize,
    /// The number of its members.
    pub(crate) members: usize,
    /// Its last member if that is an object named `symbolication`.
    pub(crate) last: Option<LastMember>,
}

/// A last member named `symbolication`.
pub(crate) struct LastMember {
    /// The offset of its value.
    pub(crate) value: usize,
    /// The whole member with the comma before it.
    pub(crate) member: Range<usize>,
}

#[derive(Default)]
struct ReportSection<'a> {
    id: Option<ReportId>,
    monitor_id: Option<Text<'a>>,
    report_type: Option<Text<'a>>,
    process_name: Option<Text<'a>>,
}

#[derive(Default)]
struct System<'a> {
    app_uuid: Option<DebugId>,
    executable: Option<Text<'a>>,
    executable_path: Option<Text<'a>>,
    process_name: Option<Text<'a>>,
    cpu_arch: Option<Text<'a>>,
    proc_translated: Option<bool>,
    cpu: [Option<u32>; 2],
    binary_cpu: [Option<u32>; 2],
}

impl System<'_> {
    fn cpu_type(&self) -> Option<CpuType> {
        cpu_from_header(self.cpu[0], self.cpu[1])
    }

    fn binary_cpu(&self) -> Option<CpuType> {
        cpu_from_header(self.binary_cpu[0], self.binary_cpu[1])
    }
}

#[derive(Default)]
struct Crash<'a> {
    error: ErrorSection<'a>,
    error_at: Option<usize>,
    threads: Vec<Backtrace<'a>>,
    has_threads: bool,
    crashed_thread: Option<Backtrace<'a>>,
    last_exception: Option<Backtrace<'a>>,
    invalid_threads: u64,
    marked: Marked,
    memory: MemorySection<'a>,
}

/// The offsets and positions of threads that a report may be about.
#[derive(Default)]
struct Marked {
    crashed: Option<(usize, usize)>,
    single: Option<(usize, usize)>,
    current: Option<(usize, usize)>,
}

#[derive(Default)]
struct ErrorSection<'a> {
    error_type: Option<Text<'a>>,
    profile: Option<Backtrace<'a>>,
}

/// The objects of an image list, the message with precedence, and the number of non-objects in the list.
#[derive(Default)]
struct ImageList<'a> {
    images: Vec<Image<'a>>,
    message: Option<ImageMessage<'a>>,
    invalid: u64,
}

/// The sections of a part found so far.
#[derive(Default)]
struct PartSections<'a> {
    at: Sections,
    report: ReportSection<'a>,
    system: System<'a>,
    system_atcrash: System<'a>,
    crash: Crash<'a>,
    deallocated: Option<Backtrace<'a>>,
    images: ImageList<'a>,
    memory: MemorySection<'a>,
    user: MemorySection<'a>,
    inner: Option<ReadPart<'a>>,
    diagnostics: Diagnostics<'a>,
    last: Option<LastMember>,
}

/// Reads the object at the scanner's position as the part `depth` levels below the outer report.
pub(crate) fn read_part<'a>(s: &mut JsonScanner<'a>, depth: usize) -> Result<ReadPart<'a>, Stop> {
    s.part = depth;
    let mut slots = MemberSlots::new("");
    let mut part = PartSections::default();
    let object = s.read_members(|s, member| {
        part.last = None;
        let value = s.pos();
        let begin = (s.peek_byte() == Some(b'{')).then_some(value);
        part.at.record_member(&member.key, begin);
        match &*member.key {
            b"report" => part.report = report_section(s, &mut slots)?,
            b"binary_images" => part.images = image_list(s, &mut slots)?,
            b"process" => {
                part.deallocated =
                    frames::read_deallocated_exception(s, slots.slot_for(2, "process"), depth)?;
            }
            b"system" => part.system = read_system(s, &mut slots, 3, "system")?,
            b"system_atcrash" => part.system_atcrash = read_system(s, &mut slots, 4, "system_atcrash")?,
            b"crash" => part.crash = crash_section(s, &mut slots, depth)?,
            b"user" => part.user = memory::read_user(s, depth)?,
            b"recrash_report" => {
                let slot = slots.slot_for(6, "recrash_report");
                if begin.is_some() && depth == RECRASH_LEVELS {
                    s.record_warning(WarningKind::RecrashTooDeep, "", "recrash_report", value);
                    s.skip_value()?;
                    part.inner = None;
                } else {
                    part.inner = s.object_with(slot, |s| read_part(s, depth + 1))?;
                    s.part = depth;
                }
            }
            b"symbolication" => {
                s.skip_value()?;
                part.last = begin.map(|value| LastMember { value, member: member.separator..s.pos() });
            }
            key => {
                if !part.memory.read_member(s, key, depth)?
                    && (depth > 0 || !part.diagnostics.read_member(s, &member, depth)?)
                {
                    s.skip_value()?;
                }
            }
        }
        Ok(())
    })?;
    part.diagnostics = part.diagnostics.finish_part(s);
    Ok(part.into_part(object))
}

impl<'a> PartSections<'a> {
    fn into_part(self, object: PassedObject) -> ReadPart<'a> {
        let PartSections { at, report, system: base, system_atcrash: atcrash, crash, .. } = self;
        let subject = crash.marked.crashed.or(crash.marked.single).or(crash.marked.current);
        // A part with a crash comes from KSCrash.
        let diagnostics = if at.crash.is_some() { Diagnostics::default() } else { self.diagnostics };
        let (diagnostic, tree) = diagnostics.sampled.unzip();
        let memory = JoinedMemory::from_sections([self.memory, crash.memory, self.user]);
        let sections = Sections {
            error: crash.error_at,
            has_threads: crash.has_threads,
            subject,
            memory: memory.at,
            ..at
        };
        let part = ReportPart {
            images: self.images.images,
            message: self.images.message,
            image_source: None,
            error_type: diagnostic
                .map(|diagnostic| Text(diagnostic.kind.as_str().as_bytes()))
                .or(crash.error.error_type),
            monitor_id: report.monitor_id,
            report_type: report.report_type,
            report_id: report.id,
            app_uuid: atcrash.app_uuid.or(base.app_uuid),
            executable: atcrash.executable.or(base.executable),
            executable_path: atcrash.executable_path.or(base.executable_path),
            process_name: report.process_name.or(atcrash.process_name).or(base.process_name),
            proc_translated: atcrash.proc_translated.or(base.proc_translated),
            cpu: atcrash.cpu_type().or(base.cpu_type()),
            binary_cpu: atcrash.binary_cpu().or(base.binary_cpu()),
            cpu_arch: atcrash.cpu_arch.or(base.cpu_arch),
            diagnostic,
            diagnostics: diagnostics.count,
            sections,
        };
        let mut backtraces = crash.threads;
        let single = [crash.crashed_thread, crash.last_exception, crash.error.profile, self.deallocated];
        backtraces.extend(single.into_iter().chain([tree]).flatten());
        backtraces.extend(memory.blocked);
        append_backtraces(&mut backtraces, memory.allocations);
        let frames = backtraces.iter().map(|b| b.invalid).sum::<u64>() + memory.invalid;
        ReadPart {
            part,
            backtraces,
            invalid: Invalid { threads: crash.invalid_threads, images: self.images.invalid, frames },
            inner: self.inner.map(Box::new),
            close: object.close,
            members: object.count,
            last: self.last,
        }
    }
}

/// Appends a list in any order, without copying the longer one.
pub(crate) fn append_backtraces<'a>(to: &mut Vec<Backtrace<'a>>, mut others: Vec<Backtrace<'a>>) {
    if others.len() > to.len() {
        std::mem::swap(to, &mut others);
    }
    to.append(&mut others);
}

fn report_section<'a>(s: &mut JsonScanner<'a>, slots: &mut MemberSlots) -> Result<ReportSection<'a>, Stop> {
    let mut section = ReportSection::default();
    let mut own = MemberSlots::new("report");
    s.read_object(slots.slot_for(0, "report"), |s, member| {
        match &*member.key {
            b"id" => section.id = s.read_uuid(own.slot_for(0, "id"))?.map(ReportId),
            b"monitor_id" => section.monitor_id = s.read_text(own.slot_for(1, "monitor_id"))?,
            b"type" => section.report_type = s.read_text(own.slot_for(2, "type"))?,
            b"process_name" => section.process_name = s.read_text(own.slot_for(3, "process_name"))?,
            _ => s.skip_value()?,
        }
        Ok(())
    })?;
    Ok(section)
}

fn read_system<'a>(
    s: &mut JsonScanner<'a>,
    slots: &mut MemberSlots,
    bit: u32,
    name: &'static str,
) -> Result<System<'a>, Stop> {
    let mut system = System::default();
    let mut own = MemberSlots::new(name);
    s.read_object(slots.slot_for(bit, name), |s, member| {
        match &*member.key {
            b"app_uuid" => system.app_uuid = s.read_uuid(own.slot_for(0, "app_uuid"))?.and_then(debug_id),
            b"CFBundleExecutable" => {
                system.executable = s.read_text(own.slot_for(1, "CFBundleExecutable"))?;
            }
            b"CFBundleExecutablePath" => {
                system.executable_path = s.read_text(own.slot_for(2, "CFBundleExecutablePath"))?;
            }
            b"process_name" => system.process_name = s.read_text(own.slot_for(3, "process_name"))?,
            b"cpu_arch" => system.cpu_arch = s.read_text(own.slot_for(4, "cpu_arch"))?,
            b"proc_translated" => {
                system.proc_translated = s.read_boolean(own.slot_for(5, "proc_translated"))?;
            }
            b"cpu_type" => system.cpu[0] = s.header_field(own.slot_for(6, "cpu_type"))?,
            b"cpu_subtype" => system.cpu[1] = s.header_field(own.slot_for(7, "cpu_subtype"))?,
            b"binary_cpu_type" => {
                system.binary_cpu[0] = s.header_field(own.slot_for(8, "binary_cpu_type"))?;
            }
            b"binary_cpu_subtype" => {
                system.binary_cpu[1] = s.header_field(own.slot_for(9, "binary_cpu_subtype"))?;
            }
            _ => s.skip_value()?,
        }
        Ok(())
    })?;
    Ok(system)
}

fn crash_section<'a>(
    s: &mut JsonScanner<'a>,
    slots: &mut MemberSlots,
    part: usize,
) -> Result<Crash<'a>, Stop> {
    let mut crash = Crash::default();
    let mut own = MemberSlots::new("crash");
    s.read_object(slots.slot_for(5, "crash"), |s, member| {
        match &*member.key {
            b"error" => {
                crash.error_at = (s.peek_byte() == Some(b'{')).then_some(s.pos());
                crash.error = error_section(s, &mut own, part)?;
            }
            b"threads" => {
                crash.threads.clear();
                crash.marked = Marked { single: crash.marked.single, ..Marked::default() };
                let (threads, marked) = (&mut crash.threads, &mut crash.marked);
                let invalid = s.read_objects(own.slot_for(1, "threads"), |s, position| {
                    let start = (s.pos(), position);
                    let (facts, backtrace) = frames::read_thread(s, part, BacktraceOrigin::Thread, position)?;
                    threads.extend(backtrace);
                    // The first of each counts.
                    marked.crashed = marked.crashed.or(facts.crashed.then_some(start));
                    marked.current = marked.current.or(facts.current_thread.then_some(start));
                    Ok(())
                })?;
                crash.has_threads = invalid.is_some();
                crash.invalid_threads = invalid.unwrap_or(0);
            }
            b"crashed_thread" => {
                let (slot, start) = (own.slot_for(2, "crashed_thread"), s.pos());
                let thread =
                    s.object_with(slot, |s| frames::read_thread(s, part, BacktraceOrigin::CrashedThread, 0))?;
                crash.marked.single = thread.is_some().then_some((start, 0));
                crash.crashed_thread = thread.and_then(|(_, backtrace)| backtrace);
            }
            b"last_exception_backtrace" => {
                let slot = own.slot_for(3, "last_exception_backtrace");
                crash.last_exception = frames::last_exception(s, slot, part)?;
            }
            key => {
                if !crash.memory.read_member(s, key, part)? {
                    s.skip_value()?;
                }
            }
        }
        Ok(())
    })?;
    Ok(crash)
}

fn error_section<'a>(
    s: &mut JsonScanner<'a>,
    slots: &mut MemberSlots,
    part: usize,
) -> Result<ErrorSection<'a>, Stop> {
    let mut section = ErrorSection::default();
    let mut own = MemberSlots::new("crash.error");
    s.read_object(slots.slot_for(0, "error"), |s, member| {
        match &*member.key {
            b"type" => section.error_type = s.read_text(own.slot_for(0, "type"))?,
            b"profile" => section.profile = frames::read_profile(s, own.slot_for(1, "profile"), part)?,
            _ => s.skip_value()?,
        }
        Ok(())
    })?;
    Ok(section)
}

/// A number of images that few processes exceed.
const USUAL_IMAGES: usize = 512;

fn image_list<'a>(s: &mut JsonScanner<'a>, slots: &mut MemberSlots) -> Result<ImageList<'a>, Stop> {
    let mut list = ImageList::default();
    let invalid = s.read_objects(slots.slot_for(1, "binary_images"), |s, _| {
        s.count_item()?;
        if list.images.is_empty() {
            list.images.reserve(USUAL_IMAGES);
        }
        // The image is read in place, like a frame.
        list.images.push(Image::default());
        let Some(own) = list.images.last_mut() else { return Ok(()) };
        let message = read_image(s, own)?;
        // Without any of the three, no frame can refer to the image, and there is nothing to show.
        if own.addr.is_none() && own.uuid.is_none() && own.name.is_none() {
            list.images.pop();
        } else if let Some(message) = message {
            list.message = Some(message.choose_message(list.message));
        }
        Ok(())
    })?;
    list.images.shrink_to_fit();
    list.invalid = invalid.unwrap_or(0);
    Ok(list)
}

fn read_image<'a>(s: &mut JsonScanner<'a>, image: &mut Image<'a>) -> Result<Option<ImageMessage<'a>>, Stop> {
    let mut header = [None; 2];
    let mut texts = [None; 2];
    let mut own = MemberSlots::new("binary_images[]");
    s.read_members(|s, member| {
        match () {
            () if member.has_key("image_addr") => {
                s.read_number_into(own.slot_for(0, "image_addr"), &mut image.addr)?;
            }
            () if member.has_key("image_vmaddr") => {
                s.read_number_into(own.slot_for(1, "image_vmaddr"), &mut image.vmaddr)?;
            }
            () if member.has_key("image_size") => {
                image.size = s.read_unsigned(own.slot_for(2, "image_size"))?.unwrap_or(0);
            }
            () if member.has_key("uuid") => {
                image.uuid = s.read_uuid(own.slot_for(3, "uuid"))?.and_then(debug_id);
            }
            () if member.has_key("name") => image.name = s.read_text(own.slot_for(4, "name"))?,
            () if member.has_key("cpu_type") => header[0] = s.header_field(own.slot_for(5, "cpu_type"))?,
            () if member.has_key("cpu_subtype") => {
                header[1] = s.header_field(own.slot_for(6, "cpu_subtype"))?;
            }
            // A simulator writes the device's description into the other one.
            () if member.has_key("crash_info_message2") => {
                texts[0] = s.read_text(own.slot_for(7, "crash_info_message2"))?;
            }
            () if member.has_key("crash_info_message") => {
                texts[1] = s.read_text(own.slot_for(8, "crash_info_message"))?;
            }
            () => s.skip_value()?,
        }
        Ok(())
    })?;
    image.cpu = cpu_from_header(header[0], header[1]);
    Ok(ImageMessage::from_texts(image.name, texts))
}
