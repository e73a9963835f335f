//! Why a function counts or does not.

use unslide_model::words;

words! {
    /// Why a function of the backtrace counts or does not.
    pub enum GroupingVerdict {
        /// It is part of the fingerprint.
        Counted = "counted",
        /// A rule of the tenant ignores it.
        Ignored = "ignored",
        /// A rule of the tenant says that it is not part of the app.
        NotApp = "not_app",
        /// A sentinel of the tenant called it.
        InsideSentinel = "inside_sentinel",
        /// It belongs to a system image.
        System = "system",
        /// It belongs to the engine or the libraries of a language, in an image of the app.
        Engine = "engine",
        /// It belongs to the runtime or the standard library.
        Runtime = "runtime",
        /// A compiler wrote it: code that functions share, an accessor of metadata, a helper of a block.
        CompilerMade = "compiler_made",
        /// Its name says that it only reports an error that its caller found.
        Reporter = "reporter",
        /// It only reports: it is declared to never return.
        ReporterByDeclaration = "reporter_by_declaration",
        /// It only reports: its code never returns, and it called a function that ends the process.
        ReporterByCode = "reporter_by_code",
        /// It is `main`.
        Entry = "entry",
        /// No function is known.
        Unnamed = "unnamed",
        /// The address lies in no image.
        NoImage = "no_image",
        /// It is outside the functions that count.
        Beyond = "beyond",
        /// It is inside the outermost functions of a hang.
        InsideHang = "inside_hang",
        /// It is not one of the innermost functions of the heaviest path.
        OffPath = "off_path",
        /// It repeats a function that counts, or is not in the cycle that counts in a stack overflow.
        Repeated = "repeated",
        /// No function counts for this kind of event.
        KindAlone = "kind_alone",
    }
}

impl GroupingVerdict {
    /// The reason in words.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            GroupingVerdict::Counted => "it is part of the fingerprint",
            GroupingVerdict::Ignored => "a rule of the tenant ignores it",
            GroupingVerdict::NotApp => "a rule of the tenant says that it is not of the app",
            GroupingVerdict::InsideSentinel => {
                "a function outside of it is a sentinel, by a rule of the tenant"
            }
            GroupingVerdict::System => "it is of a system image",
            GroupingVerdict::Engine => {
                "it is of the engine or the libraries of a language, not of the app's own code"
            }
            GroupingVerdict::Runtime => "it is of the runtime or the standard library",
            GroupingVerdict::CompilerMade => "the compiler wrote it, and many functions call it",
            GroupingVerdict::Reporter => "by its name it only reports what its caller has found",
            GroupingVerdict::ReporterByDeclaration => {
                "it only reports what its caller has found: it is declared to never return"
            }
            GroupingVerdict::ReporterByCode => {
                "it only reports what its caller has found: its code never returns, and it ended the process or threw"
            }
            GroupingVerdict::Entry => "it is the entry of the app",
            GroupingVerdict::Unnamed => "no function is known for the address",
            GroupingVerdict::NoImage => "the address lies in no image",
            GroupingVerdict::Beyond => "a function inside of it counts",
            GroupingVerdict::InsideHang => {
                "two functions outside of it count, and what they call in a hang changes"
            }
            GroupingVerdict::OffPath => "the innermost functions that half of the samples are in count",
            GroupingVerdict::Repeated => "of a recursion one turn counts, and each function once",
            GroupingVerdict::KindAlone => "the kind of the report decides, independent of functions",
        }
    }
}

/// Verdict on one function, or on a frame without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionVerdict {
    /// The frame's position in the backtrace.
    pub frame: usize,
    /// The name as grouping compares it, without types; or the image and the address while symbols are missing.
    /// Empty if neither is known.
    pub function: String,
    /// Why it counts or does not.
    pub verdict: GroupingVerdict,
    /// The tenant's rule that matches it, such as `line 3: ignore function Log.*`.
    pub rule: Option<String>,
}
