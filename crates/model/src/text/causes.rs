//! The message of an error with its causes.

use std::error::Error;

/// Returns an error's message with its causes. Omits a cause that the text already contains.
#[must_use]
pub fn format_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot store: {0}")]
        struct Twice(#[source] std::io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("no answer")]
        struct Outer(#[source] Twice);
        let error = Outer(Twice(std::io::Error::other("disk is full")));
        assert_eq!(format_causes(&error), "no answer: cannot store: disk is full");
    }
}
