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
    pub(crate) fn member(
        &mut self,
        s: &mut JsonScanner<'a>,
        member: &JsonMember<'a>,
        part: usize,
    ) -> Result<bool, Stop> {
        match &*member.key {
            b"callStackTree" | b"diagnosticMetaData" => self.own.member(s, &member.key, part)?,
            key if is_payload_key(key) && s.byte() == Some(b'[') => {
                let kind = DiagnosticKind::of_payload(key);
                let mut slots = MemberSlots::new("");
                s.objects(slots.at(0, "diagnostics"), |s, _| {
                    s.item()?;
                    let mut section = DiagnosticSection::default();
                    s.members(|s, member| section.member(s, &member.key, part))?;
                    self.add(section, kind);
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns all diagnostics after the part was read.
    pub(crate) fn finish(mut self, s: &JsonScanner<'a>) -> Diagnostics<'a> {
        let own = std::mem::take(&mut self.own);
        if own.tree.is_some() || own.metadata.is_some() {
            let kind = own.metadata.and_then(|at| DiagnosticKind::of_metadata(s.input(), at));
            self.add(own, kind);
        }
        self
    }

    fn add(&mut self, section: DiagnosticSection<'a>, kind: Option<DiagnosticKind>) {
        self.count += 1;
        if let (Some(kind), None, Some(tree)) = (kind, &self.sampled, section.tree) {
            self.sampled = Some((Diagnostic { kind, metadata: section.metadata }, tree));
        }
    }
}

impl<'a> DiagnosticSection<'a> {
    fn member(&mut self, s: &mut JsonScanner<'a>, key: &[u8], part: usize) -> Result<(), Stop> {
        match key {
            b"callStackTree" if s.byte() == Some(b'{') => self.tree = Some(call_stack_tree(s, part)?),
            b"diagnosticMetaData" => {
                self.metadata = (s.byte() == Some(b'{')).then_some(s.pos());
                s.skip()?;
            }
            _ => s.skip()?,
        }
        Ok(())
    }
}

fn is_payload_key(key: &[u8]) -> bool {
    key == b"crashDiagnostics" || DiagnosticKind::of_payload(key).is_some()
}
