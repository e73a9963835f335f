//! The members of a report about memory.

/// A member about memory, in the report object, in `crash` or in `user`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryMember {
    CrashType,
    AppState,
    AllocationStacks,
    BlockedStack,
    Footprint,
    Threshold,
    PassedAt,
    Processes,
}

/// The names of the members, in the order of [`MemoryMember`].
const MEMORY_MEMBER_NAMES: [(&str, MemoryMember); 8] = [
    ("crash_type", MemoryMember::CrashType),
    ("appState", MemoryMember::AppState),
    ("stack_oom", MemoryMember::AllocationStacks),
    ("stack_deadlock", MemoryMember::BlockedStack),
    ("singleMemory", MemoryMember::Footprint),
    ("threshold", MemoryMember::Threshold),
    ("LaunchTime", MemoryMember::PassedAt),
    // In a Jetsam event, which has further members.
    ("processes", MemoryMember::Processes),
];

/// The number of members.
pub(crate) const MEMORY_MEMBERS: usize = MEMORY_MEMBER_NAMES.len();

impl MemoryMember {
    pub(crate) fn from_key(key: &[u8]) -> Option<MemoryMember> {
        MEMORY_MEMBER_NAMES.iter().find(|(name, _)| name.as_bytes() == key).map(|(_, member)| *member)
    }
}
