//! Exit codes of errors, and how an error is shown.

use std::error::Error;
use std::process::ExitCode;
use unslide_cli::{ClientError, CommandError, Exit, Outcome, note};

/// Returns the exit code of an error that the client does not know; `None` if its cause decides.
pub type FindExit = fn(&(dyn Error + 'static)) -> Option<Exit>;

/// Returns the exit code of an outcome, and shows its error. The first cause that has a code decides.
#[must_use]
pub fn exit_code(outcome: Outcome, find_exit: FindExit) -> ExitCode {
    let exit = outcome.unwrap_or_else(|error| {
        print_error(error.as_ref());
        exit_of(error.as_ref(), find_exit)
    });
    ExitCode::from(exit as u8)
}

/// Returns the code for an error: that of the first of its causes that has one.
fn exit_of(error: &(dyn Error + 'static), find_exit: FindExit) -> Exit {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(exit) = own_exit(error).or_else(|| find_exit(error)) {
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
    None
}

/// Prints an error with its causes, each on a line. Leaves out a cause if its text was printed before.
fn print_error(error: &(dyn Error + 'static)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;
    use unslide_cli::{BoxError, check_paths};

    fn find_exit(error: &(dyn Error + 'static)) -> Exit {
        exit_of(error, |_| None)
    }

    #[test]
    fn the_code_is_that_of_the_first_cause_that_has_one() {
        let missing = || CommandError::missing("no tenant acme");
        assert_eq!(find_exit(&missing()), Exit::Missing);
        assert_eq!(find_exit(&CommandError::caused("cannot list keys", missing())), Exit::Missing);
        assert_eq!(find_exit(BoxError::from("anything").as_ref()), Exit::Failed);
    }

    #[test]
    fn a_path_that_is_not_there_is_a_wrong_command_line() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(check_paths([here, Path::new("-")]).is_ok());
        let error = check_paths([here, Path::new("no/such/file")]).unwrap_err();
        assert_eq!(
            (find_exit(&error), error.to_string()),
            (Exit::Usage, "cannot read no/such/file".to_owned())
        );
        let folder =
            CommandError::cannot_read(Path::new("logs"), io::Error::from(io::ErrorKind::IsADirectory));
        assert_eq!(find_exit(&folder), Exit::Usage);
        assert_eq!(folder.to_string(), "logs is a folder: name files, such as logs/*");
        let other = CommandError::cannot_read(here, io::Error::from(io::ErrorKind::InvalidData));
        assert_eq!(find_exit(&other), Exit::Failed);
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
