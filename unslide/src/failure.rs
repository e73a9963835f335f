//! Exit codes of errors of the configuration and of servers.

use std::error::Error;
use std::process::ExitCode;
use unslide_audit::AuditError;
use unslide_cli::{Exit, Outcome, note};
use unslide_runtime::config::Problems;
use unslide_store::StoreError;
use unslide_stream::StreamError;

/// Returns the exit code of an outcome, and shows its error.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    let problems = outcome.as_ref().err().and_then(|error| error.downcast_ref());
    let Some(Problems(problems)) = problems.filter(|Problems(problems)| problems.len() > 1) else {
        return unslide_client::exit_code(outcome, find_exit);
    };
    note!("The configuration has {} errors:", problems.len());
    problems.iter().for_each(|problem| note!("  {problem}"));
    ExitCode::from(Exit::Usage as u8)
}

fn find_exit(error: &(dyn Error + 'static)) -> Option<Exit> {
    if error.is::<Problems>() {
        return Some(Exit::Usage);
    }
    if let Some(StoreError::OtherBase) = error.downcast_ref() {
        return Some(Exit::Usage);
    }
    if let Some(AuditError::Stream(error)) = error.downcast_ref() {
        return find_exit(error);
    }
    if let Some(StreamError::Refused(_)) = error.downcast_ref() {
        return Some(Exit::NotAllowed);
    }
    let unreachable = match error.downcast_ref::<StoreError>() {
        Some(error) => error.is_retriable(),
        None => error.downcast_ref::<StreamError>().is_some_and(|error| match error {
            // Kafka answers: it is a producer's transaction that stays open.
            StreamError::Unstable { .. } => false,
            error => error.is_transient(),
        }),
    };
    unreachable.then_some(Exit::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_configuration_and_a_silent_server_have_codes_of_their_own() {
        assert_eq!(find_exit(&Problems(Vec::new())), Some(Exit::Usage));
        assert_eq!(find_exit(&StoreError::OtherBase), Some(Exit::Usage));
        assert_eq!(find_exit(&StreamError::Silent("kafka".to_owned())), Some(Exit::Unreachable));
    }
}
