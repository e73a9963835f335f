//! Images, threads and frames.

use super::Json;
use unslide_model::CpuType;

/// 64-bit ARM.
pub const ARM64: CpuType = CpuType { cpu_type: 16_777_228, cpu_subtype: 0 };
/// 64-bit ARM with pointer authentication.
pub const ARM64E: CpuType = CpuType { cpu_type: 16_777_228, cpu_subtype: 2 };
/// 64-bit ARM with 32-bit addresses: watches.
pub const ARM64_32: CpuType = CpuType { cpu_type: 33_554_444, cpu_subtype: 1 };
/// 32-bit ARM with Thumb.
pub const ARMV7: CpuType = CpuType { cpu_type: 12, cpu_subtype: 9 };
/// 64-bit Intel: simulators and translated processes.
pub const X86_64: CpuType = CpuType { cpu_type: 16_777_223, cpu_subtype: 3 };
/// 32-bit Intel: old simulators.
pub const I386: CpuType = CpuType { cpu_type: 7, cpu_subtype: 3 };

/// One of `binary_images`, as a builder.
#[derive(Clone, Debug)]
pub struct Image(pub(super) Json);

impl Image {
    /// An arm64 image of 1 MiB with this path, debug id (any spelling) and load address.
    #[must_use]
    pub fn new(path: &str, uuid: &str, address: u64) -> Image {
        let image = Image(Json::object([
            ("image_addr", Json::from(address)),
            ("image_vmaddr", Json::from(0)),
            ("image_size", Json::from(0x10_0000)),
            ("name", Json::from(path)),
            ("uuid", Json::from(uuid)),
        ]));
        image.cpu(ARM64)
    }

    /// Sets a member to any value.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Image {
        *self.0.at(key) = value.into();
        self
    }

    /// Takes a member away.
    #[must_use]
    pub fn without(mut self, key: &str) -> Image {
        self.0.remove(key);
        self
    }

    /// The size of `__TEXT` in bytes.
    #[must_use]
    pub fn size(self, bytes: u64) -> Image {
        self.set("image_size", bytes)
    }

    /// The vm address of `__TEXT` in the file.
    #[must_use]
    pub fn vmaddr(self, address: u64) -> Image {
        self.set("image_vmaddr", address)
    }

    /// The CPU; for arm64e the subtype is written with its capability bit, as a negative number.
    #[must_use]
    pub fn cpu(self, cpu: CpuType) -> Image {
        let subtype = if cpu == ARM64E { i64::from(i32::MIN) + 2 } else { i64::from(cpu.cpu_subtype) };
        self.set("cpu_type", u64::from(cpu.cpu_type)).set("cpu_subtype", subtype)
    }

    /// The library version, in three parts.
    #[must_use]
    pub fn library(self, version: [u64; 3]) -> Image {
        self.set("major_version", version[0])
            .set("minor_version", version[1])
            .set("revision_version", version[2])
    }
}

/// One frame, as a builder.
#[derive(Clone, Debug)]
pub struct Frame(pub(super) Json);

impl Frame {
    /// A frame with nothing but its address.
    #[must_use]
    pub fn at(address: u64) -> Frame {
        Frame::of(Json::from(address))
    }

    /// A frame with nothing but its address, in any spelling ([`Json::negative`], [`Json::float`]).
    #[must_use]
    pub fn of(address: Json) -> Frame {
        Frame(Json::object([("instruction_addr", address)]))
    }

    /// A frame that says nothing of itself.
    #[must_use]
    pub fn empty() -> Frame {
        Frame(Json::object::<&str>([]))
    }

    /// Sets a member to any value.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Frame {
        *self.0.at(key) = value.into();
        self
    }

    /// The image in the device's opinion: file name and load address.
    #[must_use]
    pub fn object(self, name: &str, address: u64) -> Frame {
        self.set("object_name", name).set("object_addr", address)
    }

    /// The symbol in the device's opinion: name and address.
    #[must_use]
    pub fn symbol(self, name: &str, address: u64) -> Frame {
        self.set("symbol_name", name).set("symbol_addr", address)
    }

    /// The image's debug id, as new writers give it.
    #[must_use]
    pub fn uuid(self, uuid: &str) -> Frame {
        self.set("object_uuid", uuid)
    }
}

/// One thread, as a builder.
#[derive(Clone, Debug)]
pub struct Thread(pub(super) Json);

impl Thread {
    /// A thread that neither crashed nor ran the handler, without frames.
    #[must_use]
    pub fn new(index: u64) -> Thread {
        Thread(Json::object([
            ("index", Json::from(index)),
            ("crashed", Json::from(false)),
            ("current_thread", Json::from(false)),
        ]))
    }

    /// Sets the member at a path to any value.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Json>) -> Thread {
        *self.0.at(path) = value.into();
        self
    }

    /// Takes the member at a path away.
    #[must_use]
    pub fn without(mut self, path: &str) -> Thread {
        self.0.remove(path);
        self
    }

    /// Sets these frames, the innermost first, with nothing skipped.
    #[must_use]
    pub fn frames(self, frames: impl IntoIterator<Item = Frame>) -> Thread {
        self.set("backtrace", backtrace(frames))
    }

    /// Marks it as the one that crashed.
    #[must_use]
    pub fn crashed(self) -> Thread {
        self.set("crashed", true)
    }

    /// Marks it as the one that ran the handler.
    #[must_use]
    pub fn current(self) -> Thread {
        self.set("current_thread", true)
    }

    /// Its name.
    #[must_use]
    pub fn name(self, name: &str) -> Thread {
        self.set("name", name)
    }

    /// Its dispatch queue's label.
    #[must_use]
    pub fn queue(self, label: &str) -> Thread {
        self.set("dispatch_queue", label)
    }

    /// Frames that the writer left out at the hot end.
    #[must_use]
    pub fn skipped(self, frames: u64) -> Thread {
        self.set("backtrace.skipped", frames)
    }

    /// These values in `registers.basic`.
    #[must_use]
    pub fn registers(self, registers: impl IntoIterator<Item = (&'static str, u64)>) -> Thread {
        let basic = Json::object(registers.into_iter().map(|(name, value)| (name, Json::from(value))));
        self.set("registers.basic", basic)
    }

    /// The whole set of registers of a CPU, with the program counter `pc` and the others made from it.
    #[must_use]
    pub fn all_registers(self, cpu: CpuType, pc: u64) -> Thread {
        let names = register_names(cpu);
        let values = names.into_iter().zip(1_u64..).map(|(name, n)| {
            let value = if matches!(name, "pc" | "rip" | "eip") { pc } else { n * 0x1111 };
            (name.to_owned(), Json::from(value))
        });
        self.set("registers.basic", Json::object(values))
    }
}

/// A backtrace object of these frames.
#[must_use]
pub fn backtrace(frames: impl IntoIterator<Item = Frame>) -> Json {
    let contents = frames.into_iter().map(|frame| frame.0);
    Json::object([("contents", Json::array(contents)), ("skipped", Json::from(0))])
}

fn register_names(cpu: CpuType) -> Vec<&'static str> {
    const ARM64: &str = "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 \
        x22 x23 x24 x25 x26 x27 x28 fp lr sp pc cpsr";
    const ARM: &str = "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 ip sp lr pc cpsr";
    const X86_64: &str = "rax rbx rcx rdx rdi rsi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip rflags cs fs gs";
    const X86: &str = "eax ebx ecx edx edi esi ebp esp ss eflags eip cs ds es fs gs";
    let names = match cpu.family() {
        unslide_model::CpuFamily::Arm => ARM,
        unslide_model::CpuFamily::X86_64 => X86_64,
        unslide_model::CpuFamily::X86 => X86,
        _ => ARM64,
    };
    names.split_whitespace().collect()
}
