//! The form of short names of groups, such as `SHOP-1A2B`.

/// Maximum length of the part of the app's name.
pub const PREFIX_CHARS: usize = 8;
/// Numbers of digits that are tried, one after the other. 26 digits are the whole id.
pub const DIGIT_COUNTS: [usize; 6] = [4, 5, 6, 8, 12, 26];
/// Crockford's digits: without I, L, O and U, which are mistaken for others.
pub const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Returns the stored form of a short name, which may be written in any case and with I, L or O for 1 and 0.
/// `None` if the text cannot be one.
#[must_use]
pub fn normalize_short_id(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_uppercase();
    let (prefix, digits) = text.split_once('-')?;
    let digits = digits.replace('O', "0").replace(['I', 'L'], "1");
    let is_prefix = (1..=PREFIX_CHARS).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let is_number = DIGIT_COUNTS.contains(&digits.len()) && digits.bytes().all(|byte| DIGITS.contains(&byte));
    (is_prefix && is_number).then(|| format!("{prefix}-{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_people_write_it() {
        for text in ["SHOP-1A20", " shop-1a20 ", "Shop-lA2O", "shop-ia2o"] {
            assert_eq!(normalize_short_id(text).as_deref(), Some("SHOP-1A20"), "{text}");
        }
        for text in
            ["", "shop", "shop-", "-1A2B", "shop-1a2", "shop-1a2u", "com.shop-1a2b", "toolongname-1a2b"]
        {
            assert_eq!(normalize_short_id(text), None, "{text}");
        }
    }
}
