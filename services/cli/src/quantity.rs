//! Sizes and durations on the command line, as in settings; a bare number counts bytes or seconds.

use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use unslide_model::units;

/// Parses bytes, such as `100GB`.
///
/// # Errors
/// Returns an error if the text is no size.
pub fn bytes(text: &str) -> Result<u64, String> {
    text.parse()
        .or_else(|_| units::bytes::deserialize(to_deserializer(text)))
        .map_err(|error| error.to_string())
}

/// Parses seconds, such as `5min`.
///
/// # Errors
/// Returns an error if the text is no duration, or a longer one than any command waits.
pub fn seconds(text: &str) -> Result<u32, String> {
    text.parse()
        .or_else(|_| units::seconds::deserialize(to_deserializer(text)))
        .map_err(|error| error.to_string())
}

/// Parses the maximum number of entries of a list.
///
/// # Errors
/// Returns an error if it is no number, or 0.
pub fn entries(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a number from 1 on".to_owned())
}

fn to_deserializer(text: &str) -> StrDeserializer<'_, Error> {
    text.into_deserializer()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_has_a_unit_or_is_a_bare_number() {
        assert_eq!(bytes("100GB"), Ok(100_000_000_000));
        assert_eq!((bytes("0"), bytes("4096")), (Ok(0), Ok(4_096)));
        assert_eq!((seconds("90"), seconds("10min")), (Ok(90), Ok(600)));
        for wrong in ["", "-1", "1.5", "soon", "5000000000", "5s ago"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
