//! Instructions of arm64, by the masks of the Arm Architecture Reference Manual (section C4.1).

use crate::subject::instruction::{
    AddressIndex, Effect, Flow, IndexWidth, Instruction, MemoryOperand, RegisterNumber, register_bit,
};

/// The stack pointer in DWARF. As register 31 of an instruction it is the zero register in other places.
const STACK_POINTER: RegisterNumber = 31;
const ZERO: u32 = 31;
const LINK_REGISTER: RegisterNumber = 30;
/// The size of an address.
const POINTER_BYTES: u32 = 8;

/// A pattern of bits, and the decoder of the instructions that have it.
struct Encoding {
    mask: u32,
    bits: u32,
    decode: fn(Word) -> Decoded,
}

/// The encodings, the narrower ones first.
const ENCODINGS: [Encoding; 24] = [
    Encoding { mask: 0xffff_f01f, bits: 0xd503_201f, decode: decode_hint },
    Encoding { mask: 0xffff_f000, bits: 0xd503_3000, decode: |_| Decoded::default() },
    Encoding { mask: 0xfff0_0000, bits: 0xd530_0000, decode: Word::computes },
    Encoding { mask: 0xfe1f_f000, bits: 0xd61f_0000, decode: decode_register_branch },
    Encoding { mask: 0x7c00_0000, bits: 0x1400_0000, decode: |word| word.branch(0, 26) },
    Encoding { mask: 0xfe00_0000, bits: 0x5400_0000, decode: |word| word.branch(5, 19) },
    Encoding { mask: 0x7e00_0000, bits: 0x3400_0000, decode: |word| word.branch(5, 19) },
    Encoding { mask: 0x7e00_0000, bits: 0x3600_0000, decode: |word| word.branch(5, 14) },
    Encoding { mask: 0x1c00_0000, bits: 0x1400_0000, decode: |_| Decoded::leave() },
    Encoding { mask: 0x3b00_0000, bits: 0x3900_0000, decode: decode_unsigned_offset },
    Encoding { mask: 0x3b20_0000, bits: 0x3800_0000, decode: decode_signed_offset },
    Encoding { mask: 0x3b20_0c00, bits: 0x3820_0800, decode: decode_register_offset },
    Encoding { mask: 0x3f20_0c00, bits: 0x3820_0000, decode: decode_atomic },
    Encoding { mask: 0x3f20_0c00, bits: 0x1900_0000, decode: decode_ordered_offset },
    Encoding { mask: 0x3f00_0000, bits: 0x0800_0000, decode: decode_exclusive },
    Encoding { mask: 0x3a00_0000, bits: 0x2800_0000, decode: decode_pair },
    Encoding { mask: 0x3b00_0000, bits: 0x1800_0000, decode: decode_data_address },
    Encoding { mask: 0x0a00_0000, bits: 0x0800_0000, decode: decode_other_access },
    Encoding { mask: 0x1f00_0000, bits: 0x1000_0000, decode: decode_data_address },
    Encoding { mask: 0x7fc0_0000, bits: 0x1100_0000, decode: decode_add },
    Encoding { mask: 0xffe0_ffe0, bits: 0xaa00_03e0, decode: decode_move },
    Encoding { mask: 0x1c00_0000, bits: 0x1000_0000, decode: Word::computes },
    Encoding { mask: 0x0e00_0000, bits: 0x0a00_0000, decode: Word::computes },
    Encoding { mask: 0x0e00_0000, bits: 0x0e00_0000, decode: Word::computes },
];

/// An instruction word with its address.
#[derive(Clone, Copy)]
struct Word {
    bits: u32,
    address: u64,
}

struct Decoded {
    effect: Effect,
    flow: Flow,
    written: u64,
}

impl Default for Decoded {
    fn default() -> Decoded {
        Decoded { effect: Effect::Other, flow: Flow::Next, written: 0 }
    }
}

impl Decoded {
    fn leave() -> Decoded {
        Decoded { flow: Flow::Leave { target: None }, ..Decoded::default() }
    }
}

impl Word {
    fn field(self, low: u32, width: u32) -> u32 {
        self.bits >> low & ((1 << width) - 1)
    }

    fn flag(self, bit: u32) -> bool {
        self.field(bit, 1) == 1
    }

    fn signed_field(self, low: u32, width: u32) -> i64 {
        i64::from((self.field(low, width) << (32 - width)).cast_signed() >> (32 - width))
    }

    /// Returns a register of a field in which 31 is the stack pointer.
    fn base_register(self, low: u32) -> RegisterNumber {
        RegisterNumber::try_from(self.field(low, 5)).unwrap_or(STACK_POINTER)
    }

    /// Returns the bit of a register of a field in which 31 is the zero register.
    fn data_bit(self, low: u32) -> u64 {
        if self.field(low, 5) == ZERO { 0 } else { register_bit(self.base_register(low)) }
    }

    /// An instruction that computes its first register in a way that rules do not follow.
    fn computes(self) -> Decoded {
        // Some write the stack pointer and some nothing: both are taken as written.
        Decoded { written: register_bit(self.base_register(0)), ..Decoded::default() }
    }

    fn branch(self, low: u32, width: u32) -> Decoded {
        let target = self.address.checked_add_signed(self.signed_field(low, width) * 4);
        Decoded { flow: Flow::Leave { target }, ..Decoded::default() }
    }

    /// A single load or store of the register in the lowest bits. `options` has two bits as in `opc`.
    fn single(self, is_vector: bool, options: u32, memory: MemoryOperand, writes_base: bool) -> Decoded {
        let base_bit = if writes_base { register_bit(memory.base) } else { 0 };
        if is_vector || options == 0 {
            return Decoded { effect: Effect::Access { memory }, written: base_bit, ..Decoded::default() };
        }
        let written = self.data_bit(0) | base_bit;
        let is_pointer = options == 1 && memory.size == POINTER_BYTES && self.field(0, 5) != ZERO;
        let effect = if is_pointer {
            Effect::LoadPointer { to: self.base_register(0), memory }
        } else {
            Effect::Access { memory }
        };
        Decoded { effect, written, ..Decoded::default() }
    }

    /// Returns the logarithm of the size of a single load or store.
    fn size_shift(self) -> u32 {
        if self.flag(26) { self.field(30, 2) | self.field(23, 1) << 2 } else { self.field(30, 2) }
    }

    /// Returns `opc`: of a vector register the lower bit is that of a load.
    fn options(self) -> u32 {
        if self.flag(26) { self.field(22, 1) } else { self.field(22, 2) }
    }

    /// Returns true for a prefetch, which never faults.
    fn is_prefetch(self) -> bool {
        !self.flag(26) && self.field(30, 2) == 3 && self.field(22, 2) == 2
    }

    fn memory(self, displacement: i64, size_shift: u32) -> MemoryOperand {
        MemoryOperand { base: self.base_register(5), index: None, displacement, size: 1 << size_shift.min(4) }
    }
}

/// Decodes the instruction of a word.
pub fn decode(bits: u32, address: u64) -> Instruction {
    let word = Word { bits, address };
    let encoding = ENCODINGS.iter().find(|encoding| bits & encoding.mask == encoding.bits);
    // A word of no known encoding may write anything.
    let unknown = || Decoded { flow: Flow::Leave { target: None }, ..Decoded::default() };
    let Decoded { effect, flow, written } = encoding.map_or_else(unknown, |found| (found.decode)(word));
    Instruction { address, effect, flow, written }
}

fn decode_hint(_: Word) -> Decoded {
    // Some sign a return address: the link register, or registers 16 and 17.
    let written = register_bit(LINK_REGISTER) | register_bit(16) | register_bit(17);
    Decoded { written, ..Decoded::default() }
}

fn decode_register_branch(word: Word) -> Decoded {
    // Calls and returns do not lead into the middle of a function.
    let is_branch = word.field(21, 3) == 0;
    Decoded {
        flow: if is_branch { Flow::LeaveToRegister } else { Flow::Leave { target: None } },
        ..Decoded::default()
    }
}

fn decode_unsigned_offset(word: Word) -> Decoded {
    if word.is_prefetch() {
        return Decoded::default();
    }
    let shift = word.size_shift();
    let memory = word.memory(i64::from(word.field(10, 12)) << shift, shift);
    word.single(word.flag(26), word.options(), memory, false)
}

fn decode_signed_offset(word: Word) -> Decoded {
    let mode = word.field(10, 2);
    if word.is_prefetch() && mode == 0 {
        return Decoded::default();
    }
    let offset = word.signed_field(12, 9);
    // After-indexed: the base is the address.
    let memory = word.memory(if mode == 1 { 0 } else { offset }, word.size_shift());
    word.single(word.flag(26), word.options(), memory, mode == 1 || mode == 3)
}

fn decode_register_offset(word: Word) -> Decoded {
    if word.is_prefetch() {
        return Decoded::default();
    }
    let shift = word.size_shift();
    let width = match word.field(13, 3) {
        2 => IndexWidth::Unsigned32,
        6 => IndexWidth::Signed32,
        _ => IndexWidth::Whole,
    };
    let index = AddressIndex {
        register: word.base_register(16),
        width,
        shift: if word.flag(12) { u8::try_from(shift).unwrap_or(0) } else { 0 },
    };
    // Register 31 as an index is zero.
    let index = Some(index).filter(|_| word.field(16, 5) != ZERO);
    let memory = MemoryOperand { index, ..word.memory(0, shift) };
    word.single(word.flag(26), word.options(), memory, false)
}

fn decode_atomic(word: Word) -> Decoded {
    // LDAPR is among the encodings of atomic operations: it loads only.
    let options = u32::from(word.field(12, 4) == 0xc && word.field(23, 1) == 1);
    let memory = word.memory(0, word.field(30, 2));
    let written = word.data_bit(0);
    if options == 1 {
        return word.single(false, options, memory, false);
    }
    Decoded { effect: Effect::Access { memory }, written, ..Decoded::default() }
}

fn decode_ordered_offset(word: Word) -> Decoded {
    let memory = word.memory(word.signed_field(12, 9), word.field(30, 2));
    word.single(false, word.field(22, 2), memory, false)
}

fn decode_exclusive(word: Word) -> Decoded {
    let is_pair = word.flag(21) && !word.flag(23) && word.flag(31);
    let shift = word.field(30, 2) + u32::from(is_pair);
    let memory = word.memory(0, shift);
    let is_load = word.flag(22);
    // A load-acquire is a plain load; the others write a status or compare.
    if word.flag(23) && !word.flag(21) {
        return word.single(false, u32::from(is_load), memory, false);
    }
    let written = word.data_bit(0) | word.data_bit(10) | word.data_bit(16);
    Decoded { effect: Effect::Access { memory }, written, ..Decoded::default() }
}

fn decode_pair(word: Word) -> Decoded {
    let is_vector = word.flag(26);
    let kind = word.field(30, 2);
    let shift = if is_vector { 2 + kind } else { 2 + (kind >> 1) };
    let mode = word.field(23, 2);
    let offset = word.signed_field(15, 7) << shift;
    let memory =
        MemoryOperand { size: 2 << shift.min(4), ..word.memory(if mode == 1 { 0 } else { offset }, shift) };
    let is_load = word.flag(22);
    let mut written = 0;
    if mode == 1 || mode == 3 {
        written |= register_bit(memory.base);
    }
    if is_load && !is_vector {
        written |= word.data_bit(0) | word.data_bit(10);
    }
    Decoded { effect: Effect::Access { memory }, written, ..Decoded::default() }
}

fn decode_other_access(word: Word) -> Decoded {
    // Every field that may be a register counts as written.
    let written =
        word.data_bit(0) | register_bit(word.base_register(5)) | word.data_bit(10) | word.data_bit(16);
    Decoded { written, ..Decoded::default() }
}

fn decode_data_address(word: Word) -> Decoded {
    // A literal of a vector register writes no general one; it is taken as written.
    let to = word.base_register(0);
    Decoded { effect: Effect::DataAddress { to }, written: word.data_bit(0), ..Decoded::default() }
}

fn decode_add(word: Word) -> Decoded {
    // `mov` from and to the stack pointer is an addition of zero.
    let is_move = word.flag(31) && word.field(10, 12) == 0;
    if !is_move {
        return word.computes();
    }
    let (to, from) = (word.base_register(0), word.base_register(5));
    Decoded { effect: Effect::Move { to, from }, written: register_bit(to), ..Decoded::default() }
}

fn decode_move(word: Word) -> Decoded {
    if word.field(16, 5) == ZERO || word.field(0, 5) == ZERO {
        return word.computes();
    }
    let (to, from) = (word.base_register(0), word.base_register(16));
    Decoded { effect: Effect::Move { to, from }, written: register_bit(to), ..Decoded::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0x4000;

    fn memory(base: RegisterNumber, displacement: i64, size: u32) -> MemoryOperand {
        MemoryOperand { base, index: None, displacement, size }
    }

    #[test]
    fn loads_and_stores_have_their_base_displacement_and_size() {
        for (text, bits, expected) in [
            ("ldr w8, [x0, #40]", 0xb940_2808, memory(0, 40, 4)),
            ("strb w9, [x19, #3]", 0x3900_0e69, memory(19, 3, 1)),
            ("ldr q0, [x1, #32]", 0x3dc0_0820, memory(1, 32, 16)),
            ("ldur x8, [x29, #-16]", 0xf85f_03a8, memory(29, -16, 8)),
            ("ldr x0, [x1], #8", 0xf840_8420, memory(1, 0, 8)),
            ("str x0, [x1, #-16]!", 0xf81f_0c20, memory(1, -16, 8)),
            ("ldp x8, x9, [x0, #16]", 0xa941_2408, memory(0, 16, 16)),
            ("stp q0, q1, [x2, #32]", 0xad01_0440, memory(2, 32, 32)),
            ("ldar w0, [x1]", 0x88df_fc20, memory(1, 0, 4)),
            ("ldaxr x0, [x1]", 0xc85f_fc20, memory(1, 0, 8)),
            ("ldadd x0, x2, [x1]", 0xf820_0022, memory(1, 0, 8)),
            ("ldapr x0, [x1]", 0xf8bf_c020, memory(1, 0, 8)),
        ] {
            assert_eq!(decode(bits, ADDRESS).memory(), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_index_has_its_width_and_shift() {
        // The encoding of `ldr w0, [x0, w1, sxtw #2]`.
        let narrow = decode(0xb861_d800, ADDRESS).memory().unwrap();
        let index = AddressIndex { register: 1, width: IndexWidth::Signed32, shift: 2 };
        assert_eq!((narrow.base, narrow.index), (0, Some(index)));
        let register = |number| Some(if number == 0 { 0x1000 } else { 0xffff_ffff });
        assert_eq!(narrow.find_address(&register), Some(0xffc));
        // The encoding of `ldr x0, [x0, x1, lsl #3]`.
        let whole = decode(0xf861_7800, ADDRESS).memory().unwrap();
        assert_eq!(whole.index, Some(AddressIndex { register: 1, width: IndexWidth::Whole, shift: 3 }));
    }

    #[test]
    fn copies_loads_and_computations_of_registers_are_distinguished() {
        let effect = |bits| decode(bits, ADDRESS).effect;
        for (text, bits, expected) in [
            ("mov x8, x0", 0xaa00_03e8, Effect::Move { to: 8, from: 0 }),
            ("mov x29, sp", 0x9100_03fd, Effect::Move { to: 29, from: 31 }),
            ("ldr x8, [sp, #8]", 0xf940_07e8, Effect::LoadPointer { to: 8, memory: memory(31, 8, 8) }),
            ("adrp x8, #4096", 0xb000_0008, Effect::DataAddress { to: 8 }),
        ] {
            assert_eq!(effect(bits), expected, "{text}");
        }
        for (text, bits) in [
            ("add x8, x0, #16", 0x9100_4008),
            ("add x8, x0, x1", 0x8b01_0008),
            ("mov w8, w0: it cuts the upper half", 0x2a00_03e8),
            ("csel x8, x0, x1, eq", 0x9a81_0008),
        ] {
            let decoded = decode(bits, ADDRESS);
            assert_eq!(decoded.effect, Effect::Other, "{text}");
            assert!(decoded.writes(8) && !decoded.writes(9), "{text}");
        }
    }

    #[test]
    fn branches_end_the_walk_and_have_their_targets() {
        for (text, bits, expected) in [
            ("b #16", 0x1400_0004, Flow::Leave { target: Some(0x4010) }),
            ("b.ne #-8", 0x54ff_ffc1, Flow::Leave { target: Some(0x3ff8) }),
            ("cbz x0, #8", 0xb400_0040, Flow::Leave { target: Some(0x4008) }),
            ("tbnz w0, #0, #12", 0x3700_0060, Flow::Leave { target: Some(0x400c) }),
            ("br x8", 0xd61f_0100, Flow::LeaveToRegister),
            ("blr x8", 0xd63f_0100, Flow::Leave { target: None }),
            ("ret", 0xd65f_03c0, Flow::Leave { target: None }),
            ("nop", 0xd503_201f, Flow::Next),
            ("udf #0", 0x0000_0000, Flow::Leave { target: None }),
        ] {
            assert_eq!(decode(bits, ADDRESS).flow, expected, "{text}");
        }
    }

    #[test]
    fn writes_to_the_base_are_seen() {
        // The encodings of `ldr x0, [x1], #8` and `ldp x8, x9, [x0], #16`.
        let (single, pair) = (decode(0xf840_8420, ADDRESS), decode(0xa8c1_2408, ADDRESS));
        assert!(single.writes(0) && single.writes(1) && !single.writes(2));
        assert!(pair.writes(0) && pair.writes(8) && pair.writes(9));
        // The encoding of `ld1 {v0.4s}, [x3], #16`: no rule follows it, so it may write every register that it names.
        assert!(decode(0x4cdf_7860, ADDRESS).writes(3));
    }
}
