//! Numbers in a report.

/// Integers up to this one are exact in a double.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// A raw number of the report. Addresses occur as unsigned integers over the whole 64 bits, as negative
/// integers (two's complement, from old writers) and as floats (imprecise).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer with a magnitude that fits 64 bits.
    Int {
        /// The absolute value.
        magnitude: u64,
        /// True if there is a minus sign.
        negative: bool,
    },
    /// A number with a fraction or an exponent, or an integer beyond 64 bits. May be infinite.
    Float(f64),
}

impl Number {
    /// Creates an unsigned integer.
    #[must_use]
    pub fn from_unsigned(magnitude: u64) -> Number {
        Number::Int { magnitude, negative: false }
    }

    /// Returns the 64-bit pattern of this number: negative integers as two's complement, floats rounded.
    /// Returns `None` if the number does not fit 64 bits either way.
    #[must_use]
    pub fn to_bits(self) -> Option<u64> {
        match self {
            Number::Int { magnitude, negative: false } => Some(magnitude),
            Number::Int { magnitude, negative: true } => {
                (magnitude <= 1 << 63).then(|| magnitude.wrapping_neg())
            }
            Number::Float(float) => {
                let rounded = float.round();
                // In a double, the largest address becomes 2^64 itself.
                if (0.0..=18_446_744_073_709_551_616.0).contains(&rounded) {
                    Some(rounded as u64)
                } else if (-9_223_372_036_854_775_808.0..0.0).contains(&rounded) {
                    Some((rounded as i64).cast_unsigned())
                } else {
                    None
                }
            }
        }
    }

    /// Returns an unsigned integer, also one that is written with a fraction of zero: gateways that keep every number as
    /// a double write `12.0`. Returns `None` for any other number, and for one beyond the exact integers of a double.
    #[must_use]
    pub fn to_unsigned(self) -> Option<u64> {
        match self {
            Number::Int { magnitude, negative: false } => Some(magnitude),
            Number::Float(float) if (0.0..=EXACT_INTEGERS).contains(&float) && float.fract() == 0.0 => {
                Some(float as u64)
            }
            _ => None,
        }
    }

    /// Returns true if digits may be lost because the number was written as a float.
    #[must_use]
    pub fn is_imprecise(self) -> bool {
        matches!(self, Number::Float(_))
    }
}
