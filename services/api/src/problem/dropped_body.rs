//! A report of which the body was dropped, as a problem says it.

use std::error::Error;
use std::fmt;
use unslide_model::ReportId;
use unslide_store::queries::reports::ReportRow;

/// A report of which the body was dropped.
#[derive(Clone, Debug)]
pub struct DroppedBody {
    /// The report, with the one that is like it.
    pub listed: ReportRow,
    /// How many bodies its group keeps of a day; 0 if it is older than bodies are kept.
    pub kept_bodies: u32,
    /// The report with a body that is most like it, by its id and variant.
    pub like: Option<(ReportId, u32)>,
}

impl fmt::Display for DroppedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, kept_bodies) = (self.listed.report_id, self.kept_bodies);
        match kept_bodies {
            0 => write!(f, "the body of report {id} is not kept any more: it is older than bodies are kept")?,
            _ => write!(f, "the body of report {id} is not kept (cap of {kept_bodies} a day)")?,
        }
        match self.like {
            Some((like, 0)) => write!(f, ", see report {like}, which is like it"),
            Some((like, variant)) => write!(f, ", see report {like}, variant {variant}, which is like it"),
            None => Ok(()),
        }
    }
}

impl Error for DroppedBody {}
