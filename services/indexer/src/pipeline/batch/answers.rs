//! Closes requests of the store that ended without a new revision.

use super::Tally;
use crate::records::answers::Answered;
use unslide_store::requests::{self, RequestAnswer, RequestOutcome};
use unslide_store::{BatchTx, StoreError, outbox, place};

/// Closes the requests of one tenant that these answers belong to, unless another cell may be serving the tenant.
pub(super) async fn close_requests(
    tx: &mut BatchTx,
    answers: &[&Answered],
    tally: &mut Tally,
) -> Result<(), StoreError> {
    let Some(first) = answers.first() else { return Ok(()) };
    let (tx, handling) = place::enter_tenant(tx, &first.tenant).await?;
    if handling.is_some_and(|handling| handling.is_elsewhere()) {
        tally.elsewhere.insert(first.tenant.clone());
        return Ok(());
    }
    let given: Vec<RequestAnswer> = answers
        .iter()
        .map(|answer| RequestAnswer {
            report: (answer.report_id, answer.variant),
            revision: answer.revision,
            outcome: answer.answer,
            sent: outbox::from_micros(answer.requested_at_micros),
        })
        .collect();
    let closed = requests::close_requests(tx, &given).await?;
    for (answer, closed) in answers.iter().zip(closed) {
        tally.answered += u64::from(closed.is_some());
        let Some(how @ (RequestOutcome::Lost(_) | RequestOutcome::Dead)) = closed else { continue };
        tally.lost += u64::from(how != RequestOutcome::Dead);
        tracing::warn!(report.id = %answer.report_id, answer = ?how, "a stored report cannot be symbolicated again");
    }
    Ok(())
}
