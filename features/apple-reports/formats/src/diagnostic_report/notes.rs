//! Notes of a reader about a document: forms that Apple's encoder does not write, and members that were not read.

use std::collections::BTreeSet;

/// Members that were not read and are named.
const UNREAD_LIMIT: usize = 10;

/// A form of a document that Apple's own encoder does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Kind,
    BinaryInfo,
    Threads,
    FrameNames,
    Dates,
    TimeRange,
    Measurements,
    RawValue,
    States,
    Envelope,
}

impl Form {
    fn as_str(self) -> &'static str {
        match self {
            Form::Kind => "the place of the diagnostic",
            Form::BinaryInfo => "binaryInfo",
            Form::Threads => "the names of threads and frames",
            Form::FrameNames => "names in frames",
            Form::Dates => "dates",
            Form::TimeRange => "timeRange",
            Form::Measurements => "measurements",
            Form::RawValue => "rawValue",
            Form::States => "states",
            Form::Envelope => "an object around it",
        }
    }
}

/// Notes about one document.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    forms: BTreeSet<Form>,
    unread: Vec<String>,
}

impl Notes {
    /// Records a form that is not Apple's.
    pub fn record_form(&mut self, form: Form) {
        self.forms.insert(form);
    }

    /// Records the path of a member that was not read, and why.
    pub fn record_unread(&mut self, problem: impl FnOnce() -> String) {
        if self.unread.len() < UNREAD_LIMIT {
            self.unread.push(problem());
        }
    }

    /// Returns the forms that are not Apple's, in words.
    pub fn describe_forms(&self) -> String {
        let forms: Vec<&str> = self.forms.iter().map(|form| form.as_str()).collect();
        forms.join(", ")
    }

    /// Returns the members that were not read.
    pub fn describe_unread(&self) -> String {
        self.unread.join("; ")
    }
}
