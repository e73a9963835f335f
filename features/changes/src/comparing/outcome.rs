//! Whether the builds of a crash were compared, and why not.

use unslide_changes_compare::{BuildOutcome, describe_outcome};
use unslide_model::words;
use utoipa::ToSchema;

words! {
    /// Whether builds were compared, or why not.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum ChangesOutcome {
        /// The builds were compared by their symbols.
        Compared = "compared",
        /// Most functions differ: another compiler, other flags or another optimisation.
        OtherFlags = "other_flags",
        /// Most functions have no counterpart by name.
        OtherProgram = "other_program",
        /// They are for different CPUs.
        OtherCpu = "other_cpu",
        /// The symbols of one of them have no source lines.
        NoLines = "no_lines",
        /// The symbols of one of them are not stored.
        NoSymbols = "no_symbols",
        /// No stored report names an older build without the crash.
        NoOlderBuild = "no_older_build",
        /// No stored report of the group has a stack of the app.
        NoStack = "no_stack",
        /// Their symbols are larger than a comparison holds.
        TooLarge = "too_large",
    }
}

impl From<BuildOutcome> for ChangesOutcome {
    fn from(outcome: BuildOutcome) -> ChangesOutcome {
        match outcome {
            BuildOutcome::Compared => ChangesOutcome::Compared,
            BuildOutcome::OtherFlags => ChangesOutcome::OtherFlags,
            BuildOutcome::OtherProgram => ChangesOutcome::OtherProgram,
            BuildOutcome::OtherCpu => ChangesOutcome::OtherCpu,
            BuildOutcome::NoLines => ChangesOutcome::NoLines,
        }
    }
}

impl ChangesOutcome {
    /// Says why builds are not compared, and what to do; `None` if they are.
    pub fn describe(self) -> Option<&'static str> {
        let outcome = match self {
            ChangesOutcome::Compared => BuildOutcome::Compared,
            ChangesOutcome::OtherFlags => BuildOutcome::OtherFlags,
            ChangesOutcome::OtherProgram => BuildOutcome::OtherProgram,
            ChangesOutcome::OtherCpu => BuildOutcome::OtherCpu,
            ChangesOutcome::NoLines => BuildOutcome::NoLines,
            ChangesOutcome::NoSymbols => {
                return Some("Not compared: the symbols of one build are not stored. Upload its dSYM.");
            }
            ChangesOutcome::NoOlderBuild => {
                return Some(
                    "Not compared: no stored report of an older version without this crash names its build. Compare two dSYMs with unslide builds diff.",
                );
            }
            ChangesOutcome::NoStack => {
                return Some(
                    "Not compared: no stored report of the first version has a stack of the app's own code.",
                );
            }
            ChangesOutcome::TooLarge => {
                return Some("Not compared: the symbols of one build have too many lines.");
            }
        };
        describe_outcome(outcome)
    }
}
