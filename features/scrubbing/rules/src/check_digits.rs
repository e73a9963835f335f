//! Check digits of card numbers and account numbers.

/// Returns true if the digits of the text fulfil the Luhn formula (ISO/IEC 7812-1). Other characters are skipped.
pub fn has_card_check_digit(text: &str) -> bool {
    let digits = text.chars().rev().filter_map(|c| c.to_digit(10));
    let (mut sum, mut count) = (0, 0);
    for (place, digit) in digits.enumerate() {
        let doubled = if place % 2 == 1 { digit * 2 } else { digit };
        sum += if doubled > 9 { doubled - 9 } else { doubled };
        count += 1;
    }
    (13..=19).contains(&count) && sum > 0 && sum % 10 == 0
}

/// Returns true if the text is 1 modulo 97 (ISO 13616), with its country and check digits at the end. Spaces are skipped.
pub fn has_iban_check_digits(text: &str) -> bool {
    let characters: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    if !(15..=34).contains(&characters.len()) {
        return false;
    }
    let (country, account) = characters.split_at(4);
    let rest = account.iter().chain(country).try_fold(0, |rest, character| {
        let value = character.to_digit(36)?;
        Some((rest * if value > 9 { 100 } else { 10 } + value) % 97)
    });
    rest == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_digit_breaks_the_check() {
        for (card, is_right) in [
            ("4111 1111 1111 1111", true),
            ("4111 1111 1111 1112", false),
            ("5500-0000-0000-0004", true),
            ("0000000000000000", false),
            ("42", false),
        ] {
            assert_eq!(has_card_check_digit(card), is_right, "{card}");
        }
        for (iban, is_right) in [
            ("DE89 3704 0044 0532 0130 00", true),
            ("GB29NWBK60161331926819", true),
            ("DE88 3704 0044 0532 0130 00", false),
            ("NO9386011117947", true),
            ("DE89", false),
        ] {
            assert_eq!(has_iban_check_digits(iban), is_right, "{iban}");
        }
    }
}
