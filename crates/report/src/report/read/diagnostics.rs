//! MetricKit's diagnostics.

use super::call_tree::call_stack_tree;
use crate::json::{JsonMember, JsonScanner, MemberSlots, Stop};
use crate::report::Backtrace;
use crate::report::profile::diagnostic_kind::{Diagnostic, DiagnosticKind};

/// The diagnostics of a part.
#[derive(Default)]
pub(crate) struct Diagnostics<'a> {
    /// The number of diagnostics of any kind.
    pub(crate) count: usize,
    /// The first diagnostic with sampled stacks, and its frames.
    pub(crate) sampled: Option<(Diagnostic, Backtrace<'a>)>,
    /// A diagnostic that is the part itself.
    own: DiagnosticSection<'a>,
}

/// One diagnostic while it is read.
#[derive(Default)]
struct DiagnosticSection<'a> {
    tree: Option<Backtrace<'a>>,
    metadata: Option<usize>,
}

impl<'a> Diagnostics<'a> {
    /// Reads a member of a part if it belongs to a payload or a diagnostic. Returns false for other members.
    pub(crate) fn read_member(
        &mut self,
        s: &mut JsonScanner<'a>,
        member: &JsonMember<'a>,
        part: usize,
    ) -> Result<bool, Stop> {
        match &*member.key {
            b"callStackTree" | b"diagnosticMetaData" => self.own.read_member(s, &member.key, part)?,
            key if is_payload_key(key) && s.peek_byte() == Some(b'[') => {
                let kind = DiagnosticKind::from_payload_key(key);
                let mut slots = MemberSlots::new("");
                s.read_objects(slots.slot_for(0, "diagnostics"), |s, _| {
                    s.count_item()?;
                    let mut section = DiagnosticSection::default();
                    s.read_members(|s, member| section.read_member(s, &member.key, part))?;
                    self.add_section(section, kind);
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns all diagnostics after the part was read.
    pub(crate) fn finish_part(mut self, s: &JsonScanner<'a>) -> Diagnostics<'a> {
        let own = std::mem::take(&mut self.own);
        if own.tree.is_some() || own.metadata.is_some() {
            let kind = own.metadata.and_then(|at| DiagnosticKind::from_metadata(s.input(), at));
            self.add_section(own, kind);
        }
        self
    }

    fn add_section(&mut self, section: DiagnosticSection<'a>, kind: Option<DiagnosticKind>) {
        self.count += 1;
        if let (Some(kind), None, Some(tree)) = (kind, &self.sampled, section.tree) {
            self.sampled = Some((Diagnostic { kind, metadata: section.metadata }, tree));
        }
    }
}

impl<'a> DiagnosticSection<'a> {
    fn read_member(&mut self, s: &mut JsonScanner<'a>, key: &[u8], part: usize) -> Result<(), Stop> {
        match key {
            b"callStackTree" if s.peek_byte() == Some(b'{') => self.tree = Some(call_stack_tree(s, part)?),
            b"diagnosticMetaData" => {
                self.metadata = (s.peek_byte() == Some(b'{')).then_some(s.pos());
                s.skip_value()?;
            }
            _ => s.skip_value()?,
        }
        Ok(())
    }
}

fn is_payload_key(key: &[u8]) -> bool {
    key == b"crashDiagnostics" || DiagnosticKind::from_payload_key(key).is_some()
}
