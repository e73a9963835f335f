//! Exit codes of errors, and how an error is shown.

use std::error::Error;
use std::process::ExitCode;
use unslide_client::{ClientError, CommandError, Exit, Outcome, note};
use unslide_runtime::config::Problems;
use unslide_store::StoreError;
use unslide_stream::StreamError;
use unslide_stream::audit::AuditError;

/// Returns the code for an error: that of the first of its causes that has one.
fn exit_of(error: &(dyn Error + 'static)) -> Exit {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(exit) = own_exit(error) {
            return exit;
        }
        cause = error.source();
    }
    Exit::Failed
}

fn own_exit(error: &(dyn Error + 'static)) -> Option<Exit> {
    if let Some(error) = error.downcast_ref::<CommandError>() {
        return error.exit();
    }
    if let Some(error) = error.downcast_ref::<ClientError>() {
        return Some(error.exit_code());
    }
    if error.is::<Problems>() {
        return Some(Exit::Usage);
    }
    if let Some(AuditError::Stream(error)) = error.downcast_ref() {
        return own_exit(error);
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

/// Prints an error with its causes, each on a line. Leaves out a cause if its text was printed before.
pub fn print_error(error: &(dyn Error + 'static)) {
    if let Some(Problems(problems)) = error.downcast_ref().filter(|Problems(problems)| problems.len() > 1) {
        note!("The configuration has {} errors:", problems.len());
        problems.iter().for_each(|problem| note!("  {problem}"));
        return;
    }
    let mut said = error.to_string();
    note!("{said}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            note!("because {text}");
            said = text;
        }
        cause = error.source();
    }
}

/// Returns the exit code of an outcome, and shows its error.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    let exit = outcome.unwrap_or_else(|error| {
        print_error(error.as_ref());
        exit_of(error.as_ref())
    });
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;
    use unslide_client::{BoxError, check_paths};

    #[test]
    fn the_code_is_that_of_the_first_cause_that_has_one() {
        let missing = || CommandError::missing("no tenant acme");
        assert_eq!(exit_of(&missing()), Exit::Missing);
        assert_eq!(exit_of(&CommandError::caused("cannot list keys", missing())), Exit::Missing);
        assert_eq!(exit_of(BoxError::from("anything").as_ref()), Exit::Failed);
        assert_eq!(exit_of(&Problems(Vec::new())), Exit::Usage);
        assert_eq!(exit_of(&StreamError::Silent("kafka".to_owned())), Exit::Unreachable);
    }

    #[test]
    fn a_path_that_is_not_there_is_a_wrong_command_line() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(check_paths([here, Path::new("-")]).is_ok());
        let error = check_paths([here, Path::new("no/such/file")]).unwrap_err();
        assert_eq!(
            (exit_of(&error), error.to_string()),
            (Exit::Usage, "cannot read no/such/file".to_owned())
        );
        let other = CommandError::cannot_read(here, io::Error::from(io::ErrorKind::InvalidData));
        assert_eq!(exit_of(&other), Exit::Failed);
    }

    #[test]
    fn the_help_names_every_code() {
        let codes = [
            Exit::Ready,
            Exit::Failed,
            Exit::Usage,
            Exit::Missing,
            Exit::Unreachable,
            Exit::NotAllowed,
            Exit::Unbalanced,
        ];
        let lines: Vec<&str> = Exit::HELP.lines().skip(1).collect();
        assert_eq!(lines.len(), codes.len());
        for (line, code) in lines.iter().zip(codes) {
            assert!(line.starts_with(&format!("  {}  ", code as u8)), "{line}");
        }
    }
}
