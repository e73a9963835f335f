//! Messages of errors and panics on one line.

use std::any::Any;
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

/// Returns the message of a panic.
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

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
