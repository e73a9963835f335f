//! Counts as real numbers and as text.

/// Returns a count as a real number.
#[expect(clippy::cast_precision_loss, reason = "no count of sessions reaches 2^53")]
pub fn to_real(count: u64) -> f64 {
    count as f64
}

/// Writes a count with separators of thousands.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
