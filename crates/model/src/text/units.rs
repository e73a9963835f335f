//! Sizes and durations in settings: `"64MiB"`, `"30s"`. Use a module with `#[serde(with = …)]`. It is named after
//! the unit of the field.

use serde::{Deserialize, Deserializer, Serializer, de};

/// Names of sizes, in bytes. Of several names for one size, the first is written.
const SIZES: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Names of durations, in milliseconds. Of several names for one duration, the first is written; Prometheus and Kubernetes
/// write the other.
const DURATIONS: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The unit of a field.
#[derive(Clone, Copy)]
struct Unit {
    names: &'static [(&'static str, u64)],
    /// The field's unit, in bytes or milliseconds.
    each: u64,
    example: &'static str,
}

const A_SIZE: &str = "a size such as \"64MiB\" or \"10GB\"";
const A_DURATION: &str = "a duration such as \"30s\", \"5min\", \"12h\" or \"7d\"";

impl Unit {
    const fn duration(each: u64) -> Unit {
        Unit { names: &DURATIONS, each, example: A_DURATION }
    }

    fn parse(self, text: &str) -> Result<u64, String> {
        let wrong = || format!("{text:?} is not {}", self.example);
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, name) = trimmed.split_at_checked(digits).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let name = name.trim();
        let (_, each) = self.names.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?;
        let smallest = number.checked_mul(*each).ok_or_else(wrong)?;
        if !smallest.is_multiple_of(self.each) {
            let (name, _) = self.names.iter().find(|(_, each)| *each == self.each).ok_or_else(wrong)?;
            return Err(format!("{text:?} is no multiple of 1{name}"));
        }
        Ok(smallest / self.each)
    }

    /// Formats a number in the largest unit that gives a whole number.
    fn show(self, number: u64) -> String {
        let smallest = number.saturating_mul(self.each);
        let whole = |each: u64| smallest.is_multiple_of(each).then_some(smallest / each);
        let fitting =
            self.names.iter().find_map(|(name, each)| Some((whole(*each).filter(|n| *n > 0)?, name)));
        let (number, name) = fitting.unwrap_or((0, &self.names[self.names.len() - 1].0));
        format!("{number}{name}")
    }

    fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(self, input: D) -> Result<T, D::Error> {
        let text = String::deserialize(input)?;
        let number = self.parse(&text).map_err(de::Error::custom)?;
        T::try_from(number).map_err(|_| de::Error::custom(format!("{text:?} is too large")))
    }

    fn serialize<S: Serializer, T: Copy + TryInto<u64>>(
        self,
        value: T,
        output: S,
    ) -> Result<S::Ok, S::Error> {
        output.serialize_str(&self.show(value.try_into().unwrap_or(u64::MAX)))
    }
}

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $unit:expr) => {
        $(#[$doc])*
        pub mod $name {
            use super::{Deserializer, Serializer, Unit};

            const UNIT: Unit = $unit;

            /// Reads a text with a unit.
            ///
            /// # Errors
            /// Returns an error if the text has another form, or the field cannot hold the number.
            pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(input: D) -> Result<T, D::Error> {
                UNIT.deserialize(input)
            }

            /// Writes a text with a unit.
            ///
            /// # Errors
            /// Returns the serializer's error.
            pub fn serialize<S: Serializer, T: Copy + TryInto<u64>>(
                value: &T,
                output: S,
            ) -> Result<S::Ok, S::Error> {
                UNIT.serialize(*value, output)
            }

            #[cfg(test)]
            pub(super) fn parse(text: &str) -> Result<u64, String> {
                UNIT.parse(text)
            }

            #[cfg(test)]
            pub(super) fn show(number: u64) -> String {
                UNIT.show(number)
            }
        }
    };
}

unit!(
    /// Bytes.
    bytes,
    Unit { names: &super::SIZES, each: 1, example: super::A_SIZE }
);
unit!(
    /// Milliseconds.
    milliseconds,
    Unit::duration(1)
);
unit!(
    /// Seconds.
    seconds,
    Unit::duration(1_000)
);
unit!(
    /// Days.
    days,
    Unit::duration(86_400_000)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_as_the_same_number() {
        for number in [0, 1, 7, 60, 1_000, 1_024, 3_600, 86_400, 10 << 30, 1_000_000_000] {
            assert_eq!(bytes::parse(&bytes::show(number)), Ok(number));
            assert_eq!(milliseconds::parse(&milliseconds::show(number)), Ok(number));
            assert_eq!(seconds::parse(&seconds::show(number)), Ok(number));
            assert_eq!(days::parse(&days::show(number)), Ok(number));
        }
        assert_eq!(bytes::show(2 << 30), "2GiB");
        assert_eq!(seconds::show(7_200), "2h");
        assert_eq!((seconds::show(300), seconds::parse("5m")), ("5min".to_owned(), Ok(300)));
    }

    #[test]
    fn a_text_without_a_known_unit_is_refused() {
        for text in ["", "5", "GiB", "-1B", "1.5GiB", "1 GiB extra", "99999999999GiB", "10 gib"] {
            assert!(bytes::parse(text).is_err(), "{text}");
        }
        assert_eq!(bytes::parse("10 GiB"), Ok(10 << 30));
        assert_eq!(seconds::parse("1500ms"), Err("\"1500ms\" is no multiple of 1s".to_owned()));
        assert_eq!(days::parse("36h"), Err("\"36h\" is no multiple of 1d".to_owned()));
    }
}
