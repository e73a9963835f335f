//! Enrichment of a report's JavaScript error. Its frames are counted and written beside those of threads.

use super::{Detail, References, Splicer};
use crate::answer::Judged;
use crate::javascript::{self, JavaScriptAnswer, JavaScriptDetail};
use crate::plan::Plan;
use crate::status::FrameTally;

impl Plan<'_, '_> {
    /// Answers the frames of a JavaScript error. Returns how many refer to each bundle.
    pub(super) fn answer_javascript<'s>(
        &'s self,
        judged: &[Judged<'s>],
        tally: &mut FrameTally,
        referred: &mut [References],
    ) -> Vec<JavaScriptAnswer<'s>> {
        let answers = self.javascript.as_ref().map(|error| javascript::answer_frames(error, judged));
        let answers = answers.unwrap_or_default();
        for answer in &answers {
            tally.add_frame(answer.status, answer.is_of_engine());
            if let Some(bundle) = answer.image.and_then(|image| referred.get_mut(image as usize)) {
                bundle.frames += 1;
            }
        }
        answers
    }

    /// Writes the answers for a JavaScript error, with the most detail that fits.
    pub(super) fn javascript_part(
        &self,
        answers: &[JavaScriptAnswer<'_>],
        judged: &[Judged<'_>],
        detail: Detail,
        splicer: &mut Splicer<'_>,
    ) -> Option<Vec<u8>> {
        let error = self.javascript.as_ref()?;
        let details =
            [JavaScriptDetail::Full, JavaScriptDetail::WithoutContext, JavaScriptDetail::StatusOnly];
        let wanted = usize::from(detail == Detail::FunctionsOnly);
        let mut out = Vec::new();
        for detail in details.into_iter().skip(wanted) {
            out.clear();
            javascript::write_javascript(&mut out, error, answers, judged, detail);
            if detail == JavaScriptDetail::StatusOnly || splicer.try_reserve(out.len()) {
                break;
            }
            splicer.cut = true;
        }
        Some(out)
    }
}
