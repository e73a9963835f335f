//! The form of an instruction that both decoders make.

/// A register by its number in DWARF, as the table of variables has it.
pub type RegisterNumber = u16;

/// The part of an index register that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexWidth {
    Whole,
    /// The low 32 bits, extended with zeros.
    Unsigned32,
    /// The low 32 bits, extended with their sign.
    Signed32,
}

/// The index of an address: a register, shifted to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressIndex {
    pub register: RegisterNumber,
    pub width: IndexWidth,
    pub shift: u8,
}

/// The memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    pub base: RegisterNumber,
    pub index: Option<AddressIndex>,
    pub displacement: i64,
    /// In bytes; of a pair, both parts together.
    pub size: u32,
}

impl MemoryOperand {
    /// Returns the address, from the values of registers.
    pub fn find_address(&self, register: &dyn Fn(RegisterNumber) -> Option<u64>) -> Option<u64> {
        let base = register(self.base)?.wrapping_add_signed(self.displacement);
        let Some(index) = self.index else { return Some(base) };
        let value = register(index.register)?;
        let low = u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default();
        let extended = match index.width {
            IndexWidth::Whole => value,
            IndexWidth::Unsigned32 => u64::from(low),
            IndexWidth::Signed32 => i64::from(low.cast_signed()).cast_unsigned(),
        };
        Some(base.wrapping_add(extended << index.shift))
    }
}

/// The effect of an instruction, as far as rules distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Loads the 8 bytes of an address into a register.
    LoadPointer { to: RegisterNumber, memory: MemoryOperand },
    /// Any other access to memory.
    Access { memory: MemoryOperand },
    /// Copies a whole register to another.
    Move { to: RegisterNumber, from: RegisterNumber },
    /// Makes an address in the image's data, or loads from one.
    DataAddress { to: RegisterNumber },
    /// Computes a register from others, or has an effect that is not known.
    Other,
}

/// The control flow after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    /// A branch, a call or a trap; with the target if it is in the instruction.
    Leave {
        target: Option<u64>,
    },
    /// A branch to the address in a register: it may lead into this function.
    LeaveToRegister,
}

/// A decoded instruction. Addresses are relative to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub address: u64,
    pub effect: Effect,
    pub flow: Flow,
    /// A bit for each register that it may write.
    pub written: u64,
}

impl Instruction {
    /// Returns true if it may write a register.
    pub fn writes(&self, register: RegisterNumber) -> bool {
        self.written & register_bit(register) != 0
    }

    /// Returns the memory that it accesses.
    pub fn memory(&self) -> Option<MemoryOperand> {
        match self.effect {
            Effect::LoadPointer { memory, .. } | Effect::Access { memory } => Some(memory),
            _ => None,
        }
    }
}

/// Returns the bit of a register; none for vector registers.
pub fn register_bit(register: RegisterNumber) -> u64 {
    1_u64.checked_shl(u32::from(register)).unwrap_or(0)
}
