//! The ready patterns: an expression for candidates, and a check that the candidate is one.

use crate::check_digits::{has_card_check_digit, has_iban_check_digits};
use crate::config::ReadyPattern;
use crate::cut::cut_text;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Returns the expression that finds candidates. Its first group, if it has one, is the part to take.
pub fn expression(pattern: ReadyPattern) -> &'static str {
    match pattern {
        // Titles of groups have `#` in the place of digits.
        ReadyPattern::Email => r"[\w.%+'#-]+@[\w#-]+(?:\.[\w#-]+)+",
        ReadyPattern::Phone => {
            r"\+[0-9](?:[ ./()-]{0,2}[0-9]){7,14}|\(?[0-9]{3}\)?[ .-]{1,2}[0-9]{3}[ .-][0-9]{4}"
        }
        ReadyPattern::Iban => r"[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,30}",
        ReadyPattern::Card => r"[0-9](?:[ -]?[0-9]){12,18}",
        ReadyPattern::Ip => r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}",
        ReadyPattern::Token => concat!(
            r"eyJ[A-Za-z0-9_#-]{8,200}\.[A-Za-z0-9_#-]{8,}(?:\.[A-Za-z0-9_#-]*)?",
            r"|(?:ghp|gho|ghs|github_pat|glpat|sk_live|sk_test|rk_live|xox[abprs])[_-][A-Za-z0-9_#-]{16,}",
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}",
            r"|(?i:bearer|basic)\s{1,4}([A-Za-z0-9_.~+/=#-]{8,})",
            r#"|(?i:password|passwd|secret|token|api[_-]?key|session[_-]?id)["']?\s{0,4}[:=]\s{0,4}["']?([^\s"',;&}\[\]]{4,})"#,
        ),
        ReadyPattern::UserPath => {
            r#"(?:/Users/|/home/|\\Users\\)(?:([^/\\\n"'\[\]]{1,64})[/\\]|([^/\\\s"'\[\]]+))"#
        }
        ReadyPattern::Coordinates => concat!(
            r"[+-]?[0-9]{1,3}\.[0-9]{4,}\s?[,;/ ]\s?[+-]?[0-9]{1,3}\.[0-9]{4,}",
            r#"|(?i:latitude|longitude|lat|lon|lng)["']?\s{0,4}[:=]\s{0,4}([+-]?[0-9]{1,3}\.[0-9]+)"#,
        ),
    }
}

/// Returns the part of a candidate to take, or None if the candidate is none.
pub fn check_candidate(pattern: ReadyPattern, text: &str, found: Range<usize>) -> Option<Range<usize>> {
    let candidate = cut_text(text, found.clone());
    match pattern {
        ReadyPattern::Email | ReadyPattern::Token => Some(found),
        ReadyPattern::UserPath => (candidate != "Shared").then_some(found),
        ReadyPattern::Phone => stands_alone(text, &found).then_some(found),
        ReadyPattern::Card => longest_part(text, found, has_card_check_digit),
        ReadyPattern::Iban => {
            longest_part(text, found, |part| has_iban_check_digits(&part.to_ascii_uppercase()))
        }
        ReadyPattern::Ip => {
            let is_address = if candidate.contains(':') {
                candidate.parse::<Ipv6Addr>().is_ok()
                    && candidate.split(':').filter(|g| !g.is_empty()).count() > 2
            } else {
                candidate.parse::<Ipv4Addr>().is_ok()
            };
            (is_address && stands_alone(text, &found)).then_some(found)
        }
        ReadyPattern::Coordinates => {
            let degrees = candidate.split([',', ';', '/', ' ']).filter(|part| !part.is_empty());
            let mut degrees = degrees.map(|part| part.trim().parse::<f64>());
            let is_place = match (degrees.next(), degrees.next()) {
                (Some(Ok(latitude)), Some(Ok(longitude))) => {
                    latitude.abs() <= 90.0 && longitude.abs() <= 180.0
                }
                (Some(Ok(degree)), None) => degree.abs() <= 180.0,
                _ => false,
            };
            is_place.then_some(found)
        }
    }
}

/// Returns true if no letter and no digit is beside the range.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let before = cut_text(text, 0..range.start).chars().next_back();
    let after = cut_text(text, range.end..text.len()).chars().next();
    !before.into_iter().chain(after).any(char::is_alphanumeric)
}

/// Returns the longest beginning of a candidate that stands alone and passes the check: a candidate may have taken the next word.
fn longest_part(text: &str, found: Range<usize>, check: impl Fn(&str) -> bool) -> Option<Range<usize>> {
    // Candidates are ASCII and short.
    (found.start + 1..=found.end).rev().map(|end| found.start..end).find(|part| {
        let ends_in_word = cut_text(text, part.clone()).ends_with(|c: char| c.is_ascii_alphanumeric());
        ends_in_word && stands_alone(text, part) && check(cut_text(text, part.clone()))
    })
}
