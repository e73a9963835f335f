//! Formats numbers, times and texts for pages.

use askama_base::filters::Safe;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use unslide_model::figures::round_share_below_whole;
pub use unslide_model::figures::{format_bytes as bytes, format_duration as duration};
use unslide_model::{CpuType, DebugId, shell_word, upload_dsym_command};
use unslide_report::text::escape_line;

/// Formats a time relative to `now`, with the full time in its title and for machines.
pub fn format_time(at: OffsetDateTime, now: OffsetDateTime) -> Safe<String> {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    let machine = at.format(&Rfc3339).unwrap_or_default();
    let absolute = at.to_offset(time::UtcOffset::UTC).format(&format).unwrap_or_default();
    let relative = format_ago((now - at).whole_seconds());
    Safe(format!(r#"<time datetime="{machine}" title="{absolute}">{relative}</time>"#))
}

fn format_ago(seconds: i64) -> String {
    let (number, unit) = match seconds.unsigned_abs() {
        0..45 => return "just now".to_owned(),
        seconds @ 45..3_570 => ((seconds + 30) / 60, "min"),
        seconds @ 3_570..84_600 => ((seconds + 1_800) / 3_600, "h"),
        seconds => ((seconds + 43_200) / 86_400, "d"),
    };
    if seconds < 0 { format!("in {number} {unit}") } else { format!("{number} {unit} ago") }
}

/// Formats a number with thousands separators.
pub fn grouped(number: impl TryInto<i64>) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "−" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with the name of the counted things.
pub fn counted(number: impl TryInto<i64>, one: &str, many: &str) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Formats the change of a number of bytes, with its sign.
pub fn changed_bytes(before: u64, after: u64) -> String {
    let sign = if after < before { "\u{2212}" } else { "+" };
    format!("{sign}{}", bytes(after.abs_diff(before)))
}

/// Returns a share in percent, with two digits below one per cent, never rounded up to all of it, and never to nothing.
pub fn format_percentage(part: i64, whole: i64) -> Option<String> {
    let whole = u64::try_from(whole).ok().filter(|whole| *whole > 0)?;
    let part = u64::try_from(part).unwrap_or(0);
    if part == 0 {
        return Some("0 %".to_owned());
    }
    Some(match round_share_below_whole(part, whole, 10_000) {
        0 => "< 0.01 %".to_owned(),
        hundredths @ 1..100 => format!("0.{hundredths:02} %"),
        _ => format!("{} %", round_share_below_whole(part, whole, 100)),
    })
}

/// Returns a text, or a word if it is empty.
pub fn text_or<'t>(text: &'t str, word: &'t str) -> &'t str {
    if text.is_empty() { word } else { text }
}

/// Returns the first few names.
pub fn few(names: &[String]) -> String {
    const SHOWN_NAMES_LIMIT: usize = 3;
    let mut text: Vec<String> =
        names.iter().take(SHOWN_NAMES_LIMIT).map(|name| text_or(name, "none").to_owned()).collect();
    if names.len() > SHOWN_NAMES_LIMIT {
        text.push(format!("{} more", names.len() - SHOWN_NAMES_LIMIT));
    }
    text.join(", ")
}

/// Returns a count, with the word "about" if it is an estimate.
pub fn estimate(count: String, is_estimated: bool) -> String {
    if is_estimated { format!("about {count}") } else { count }
}

pub fn address(address: u64) -> String {
    format!("{address:#018x}")
}

/// Returns the command that uploads the missing file of an image: a bundle's source map, or else a dSYM. The
/// page of a report says which app the map belongs to.
pub fn missing_command(image: &str, arch: &str, debug_id: &DebugId) -> String {
    if arch != CpuType::JAVASCRIPT.name() {
        return upload_dsym_command(*debug_id);
    }
    format!("unslide upload --source-map {}", file_word(&format!("{}.map", escape_line(image))))
}

/// Quotes a file name as one word of a shell that is not an option.
fn file_word(name: &str) -> String {
    let path = if name.starts_with('-') { format!("./{name}") } else { name.to_owned() };
    shell_word(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_204, "1\u{202f}204"), (-1_000_000, "−1\u{202f}000\u{202f}000")]
        {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(changed_bytes(2_000, 5_418_358), "+5.2 MiB");
        assert_eq!((format_percentage(999, 1_000), format_percentage(1, 0)), (Some("99 %".into()), None));
        assert_eq!(format_percentage(2, 3).as_deref(), Some("67 %"));
        for (part, text) in [(98, "0.33 %"), (0, "0 %"), (1, "< 0.01 %"), (3, "0.01 %"), (294, "1 %")] {
            assert_eq!(format_percentage(part, 29_338).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_moment_is_told_by_its_distance() {
        for (seconds, text) in [
            (3, "just now"),
            (60, "1 min ago"),
            (3_540, "59 min ago"),
            (7_200, "2 h ago"),
            (90_000, "1 d ago"),
            (-600, "in 10 min"),
        ] {
            assert_eq!(format_ago(seconds), text);
        }
    }

    #[test]
    fn a_command_takes_a_name_as_one_word() {
        let map = |image| missing_command(image, "javascript", &DebugId([7; 16]));
        assert_eq!(map("main.jsbundle"), "unslide upload --source-map main.jsbundle.map");
        assert_eq!(map("$(id) it's"), r"unslide upload --source-map '$(id) it'\''s.map'");
        assert_eq!(map("--api-key"), "unslide upload --source-map ./--api-key.map");
        assert!(missing_command("Shop", "arm64", &DebugId([7; 16])).contains("== 07070707-"));
    }
}
