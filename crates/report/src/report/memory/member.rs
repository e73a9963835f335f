//! The members of a report that tell of memory.

/// A member that tells of memory, in the report object, in `crash` or in `user`.
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
const MEMBERS: [(&str, MemoryMember); 8] = [
    ("crash_type", MemoryMember::CrashType),
    ("appState", MemoryMember::AppState),
    ("stack_oom", MemoryMember::AllocationStacks),
    ("stack_deadlock", MemoryMember::BlockedStack),
    ("singleMemory", MemoryMember::Footprint),
    ("threshold", MemoryMember::Threshold),
    ("LaunchTime", MemoryMember::PassedAt),
    // Of a Jetsam event, which has more than this.
    ("processes", MemoryMember::Processes),
];

/// How many members there are.
pub(crate) const MEMORY_MEMBERS: usize = MEMBERS.len();

impl MemoryMember {
    pub(crate) fn of(key: &[u8]) -> Option<MemoryMember> {
        MEMBERS.iter().find(|(name, _)| name.as_bytes() == key).map(|(_, member)| *member)
    }
}
