//! Which address is looked up for a frame: the frame's own, or one byte less.
//!
//! A return address belongs to the instruction after the call, a saved program counter to the
//! instruction itself. The report does not say which of the two a frame holds. The table in
//! [`choose_rule`] derives it from the frame's position.

use unslide_model::RelativeAddress;
use unslide_report::{Backtrace, BacktraceOrigin, ErrorKind, ReportPart};

/// Facts about a frame that the table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The error's type or the monitor is `profile`, or the frames are a profile's.
    pub profile: bool,
    /// The report was made from a MetricKit payload.
    pub metric_kit: bool,
    /// The error's type.
    pub error: ErrorKind,
    /// Origin of the backtrace in the report.
    pub origin: BacktraceOrigin,
    /// The thread has `crashed`, or is a minimal report's `crashed_thread`.
    pub crashed: bool,
    /// The thread ran the crash handler.
    pub current_thread: bool,
    /// Frames that the writer left out at the hot end.
    pub skipped: u64,
    /// The frame's position in its backtrace, 0 the innermost.
    pub index: usize,
    /// The frame before it (the one that was called) is `_sigtramp`.
    pub after_sigtramp: bool,
    /// The thread's registers.
    pub registers: Registers,
}

/// Evidence of a thread's registers about its frame 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// The thread has no registers.
    Absent,
    /// It has registers, but no program counter among them.
    WithoutProgramCounter,
    /// The program counter is frame 0's address, both cleaned.
    AtFrame0,
    /// The program counter is another address.
    Elsewhere,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The writer has already decremented a profile's frames.
    Profile = 1,
    /// The backtrace of an exception holds return addresses only.
    Exception = 2,
    /// A caller's frame is a return address, unless a signal interrupted it.
    Caller = 3,
    /// The innermost frames are missing, so frame 0 is a caller.
    Skipped = 4,
    /// The saved program counter decides.
    Registers = 5,
    /// MetricKit's frame 0 is the program counter.
    MetricKit = 6,
    /// The thread took its backtrace itself.
    SelfCaptured = 7,
    /// Another thread stopped this one.
    Stopped = 8,
    /// No rule decides; most frames are return addresses.
    Otherwise = 9,
}

impl Rule {
    /// The row's number in the table, from 1.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The row's name in explanations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Profile => "profile",
            Rule::Exception => "exception_backtrace",
            Rule::Caller => "caller",
            Rule::Skipped => "skipped",
            Rule::Registers => "registers",
            Rule::MetricKit => "metric_kit",
            Rule::SelfCaptured => "self_captured",
            Rule::Stopped => "stopped",
            Rule::Otherwise => "otherwise",
        }
    }
}

/// Result of the table for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The first row that matches.
    pub rule: Rule,
    /// True if the address one byte lower is looked up.
    pub adjusted: bool,
    /// True if the choice is a guess.
    pub approximate: bool,
}

impl Choice {
    /// Returns the look-up address for a frame at this address.
    pub(crate) fn looked_up(self, relative: RelativeAddress) -> RelativeAddress {
        if self.adjusted { relative.previous_byte() } else { relative }
    }
}

/// Returns the choice of the first row that matches.
#[must_use]
pub fn choose_rule(c: &Circumstances) -> Choice {
    use Rule::{Caller, Exception, MetricKit, Otherwise, Profile, SelfCaptured, Skipped, Stopped};
    const EXACT: (bool, bool) = (false, false);
    const BEFORE: (bool, bool) = (true, false);
    const GUESS: (bool, bool) = (true, true);

    let exception =
        matches!(c.origin, BacktraceOrigin::LastException | BacktraceOrigin::DeallocatedException);
    let pc_known = matches!(c.registers, Registers::AtFrame0 | Registers::Elsewhere);
    let no_registers = c.registers == Registers::Absent;
    let thrown_or_user =
        matches!(c.error, ErrorKind::NsException | ErrorKind::CppException | ErrorKind::User);
    let interrupted =
        matches!(c.error, ErrorKind::Mach | ErrorKind::Signal | ErrorKind::Deadlock | ErrorKind::Hang);

    let (rule, (adjusted, approximate)) = match () {
        () if c.profile => (Profile, EXACT),
        () if exception => (Exception, BEFORE),
        () if c.index > 0 => (Caller, if c.after_sigtramp { EXACT } else { BEFORE }),
        // The allocator captures the backtrace of its caller.
        () if c.origin == BacktraceOrigin::AllocationStack => (SelfCaptured, BEFORE),
        () if c.skipped > 0 => (Skipped, BEFORE),
        () if pc_known => (Rule::Registers, if c.registers == Registers::AtFrame0 { EXACT } else { BEFORE }),
        () if c.metric_kit && no_registers => (MetricKit, EXACT),
        () if no_registers && (c.current_thread || c.crashed && thrown_or_user) => (SelfCaptured, BEFORE),
        () if no_registers && (!c.crashed || interrupted) => (Stopped, EXACT),
        () => (Otherwise, GUESS),
    };
    Choice { rule, adjusted, approximate }
}

impl Circumstances {
    /// Returns the facts that all frames of a backtrace share. The caller sets
    /// [`Circumstances::index`], [`Circumstances::after_sigtramp`] and the registers' program
    /// counter.
    #[must_use]
    pub fn from_backtrace(part: &ReportPart<'_>, backtrace: &Backtrace<'_>) -> Circumstances {
        let mut thread = backtrace.thread.unwrap_or_default();
        if backtrace.origin == BacktraceOrigin::BlockedThread {
            // Another thread stopped it and read its frames, even if its own fields say otherwise.
            (thread.crashed, thread.current_thread) = (false, false);
        }
        let metric_kit = part.is_metric_kit();
        let is_profile = part.is_profile() || backtrace.origin == BacktraceOrigin::Profile;
        Circumstances {
            // Samples of MetricKit have MetricKit's addresses.
            profile: is_profile && !metric_kit,
            metric_kit,
            error: part.error_kind(),
            origin: backtrace.origin,
            crashed: thread.crashed || backtrace.origin == BacktraceOrigin::CrashedThread,
            current_thread: thread.current_thread,
            skipped: backtrace.skipped,
            index: 0,
            after_sigtramp: false,
            registers: if thread.pc.is_some() {
                Registers::Elsewhere
            } else if thread.has_registers {
                Registers::WithoutProgramCounter
            } else {
                Registers::Absent
            },
        }
    }
}

/// True for the name of the function that calls a signal handler, in each spelling that devices and
/// symbol tables use.
#[must_use]
pub fn is_sigtramp(name: &[u8]) -> bool {
    matches!(name, b"_sigtramp" | b"__sigtramp")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frame 0 of a thread that was stopped by a Mach exception and has no registers.
    const STOPPED: Circumstances = Circumstances {
        profile: false,
        metric_kit: false,
        error: ErrorKind::Mach,
        origin: BacktraceOrigin::Thread,
        crashed: true,
        current_thread: false,
        skipped: 0,
        index: 0,
        after_sigtramp: false,
        registers: Registers::Absent,
    };

    #[track_caller]
    fn check(c: Circumstances, rule: Rule, adjusted: bool, approximate: bool) {
        assert_eq!(choose_rule(&c), Choice { rule, adjusted, approximate }, "{c:?}");
    }

    #[test]
    fn row_1_takes_profile_frames_as_they_are_before_any_other_row() {
        for origin in [BacktraceOrigin::Profile, BacktraceOrigin::LastException, BacktraceOrigin::Thread] {
            for index in [0, 5] {
                check(
                    Circumstances { profile: true, origin, index, skipped: 3, ..STOPPED },
                    Rule::Profile,
                    false,
                    false,
                );
            }
        }
    }

    #[test]
    fn row_2_decrements_every_frame_of_an_exception() {
        for origin in [BacktraceOrigin::LastException, BacktraceOrigin::DeallocatedException] {
            for index in [0, 1] {
                for after_sigtramp in [false, true] {
                    check(
                        Circumstances { origin, index, after_sigtramp, ..STOPPED },
                        Rule::Exception,
                        true,
                        false,
                    );
                }
            }
        }
    }

    #[test]
    fn row_3_decrements_callers_except_the_one_that_a_signal_interrupted() {
        let caller = Circumstances { index: 1, registers: Registers::AtFrame0, ..STOPPED };
        check(caller, Rule::Caller, true, false);
        check(Circumstances { skipped: 1, metric_kit: true, ..caller }, Rule::Caller, true, false);
        check(Circumstances { after_sigtramp: true, ..caller }, Rule::Caller, false, false);
    }

    #[test]
    fn row_4_takes_frame_0_for_a_caller_where_inner_frames_were_left_out() {
        let skipped = Circumstances { skipped: 64_862, ..STOPPED };
        check(skipped, Rule::Skipped, true, false);
        check(Circumstances { registers: Registers::AtFrame0, ..skipped }, Rule::Skipped, true, false);
    }

    #[test]
    fn row_5_believes_the_saved_program_counter() {
        for error in [ErrorKind::Mach, ErrorKind::NsException, ErrorKind::User, ErrorKind::Other] {
            for (metric_kit, current_thread) in [(false, false), (false, true), (true, false)] {
                let c = Circumstances { error, metric_kit, current_thread, ..STOPPED };
                check(Circumstances { registers: Registers::AtFrame0, ..c }, Rule::Registers, false, false);
                check(Circumstances { registers: Registers::Elsewhere, ..c }, Rule::Registers, true, false);
            }
        }
    }

    #[test]
    fn row_6_takes_metric_kits_frame_0_as_the_program_counter() {
        for error in [ErrorKind::Mach, ErrorKind::NsException, ErrorKind::Other] {
            check(Circumstances { metric_kit: true, error, ..STOPPED }, Rule::MetricKit, false, false);
        }
    }

    #[test]
    fn row_7_decrements_where_the_thread_took_its_own_backtrace() {
        for error in [ErrorKind::NsException, ErrorKind::CppException, ErrorKind::User] {
            check(Circumstances { error, ..STOPPED }, Rule::SelfCaptured, true, false);
        }
        for crashed in [false, true] {
            check(
                Circumstances { current_thread: true, crashed, ..STOPPED },
                Rule::SelfCaptured,
                true,
                false,
            );
        }
    }

    #[test]
    fn row_7_decrements_where_the_allocator_took_the_backtrace() {
        let allocation =
            Circumstances { origin: BacktraceOrigin::AllocationStack, crashed: false, ..STOPPED };
        check(allocation, Rule::SelfCaptured, true, false);
        check(Circumstances { error: ErrorKind::Other, ..allocation }, Rule::SelfCaptured, true, false);
        check(Circumstances { index: 1, ..allocation }, Rule::Caller, true, false);
        let blocked = Circumstances { origin: BacktraceOrigin::BlockedThread, ..allocation };
        check(Circumstances { error: ErrorKind::Other, ..blocked }, Rule::Stopped, false, false);
    }

    #[test]
    fn row_8_takes_frame_0_of_a_stopped_thread_as_it_is() {
        for error in [ErrorKind::Mach, ErrorKind::Signal, ErrorKind::Deadlock, ErrorKind::Hang] {
            check(Circumstances { error, ..STOPPED }, Rule::Stopped, false, false);
        }
        for error in [ErrorKind::NsException, ErrorKind::User, ErrorKind::Other] {
            check(Circumstances { crashed: false, error, ..STOPPED }, Rule::Stopped, false, false);
        }
    }

    #[test]
    fn row_9_guesses_a_return_address_and_says_so() {
        check(Circumstances { error: ErrorKind::Other, ..STOPPED }, Rule::Otherwise, true, true);
        for (crashed, current_thread, metric_kit) in
            [(false, false, false), (true, false, false), (false, true, false), (false, false, true)]
        {
            let registers = Registers::WithoutProgramCounter;
            check(
                Circumstances { registers, crashed, current_thread, metric_kit, ..STOPPED },
                Rule::Otherwise,
                true,
                true,
            );
        }
    }

    #[test]
    fn the_rows_are_numbered_as_in_the_table() {
        let rows = [
            Rule::Profile,
            Rule::Exception,
            Rule::Caller,
            Rule::Skipped,
            Rule::Registers,
            Rule::MetricKit,
            Rule::SelfCaptured,
            Rule::Stopped,
            Rule::Otherwise,
        ];
        assert!(rows.iter().map(|r| r.number()).eq(1..=9));
    }

    #[test]
    fn sigtramp_is_known_with_and_without_the_linkers_underscore() {
        assert!(is_sigtramp(b"_sigtramp") && is_sigtramp(b"__sigtramp"));
        assert!(!is_sigtramp(b"sigtramp") && !is_sigtramp(b"_sigtramp_"));
    }
}
