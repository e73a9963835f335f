//! Templates of paths: what is left of a path once all that tells persons or things apart is taken out.

/// The most bytes of a path that is read.
const PATH_BYTES: usize = 2_048;
/// The most bytes of a template that an app sends.
const SENT_TEMPLATE_BYTES: usize = 200;
/// The most segments of a template that is made of a path; those behind are one.
const MOST_SEGMENTS: usize = 8;
/// The most letters of a segment that stays in a template.
const SEGMENT_LETTERS: usize = 24;
/// The most letters of a segment in camel case.
const CAMEL_CASE_LETTERS: usize = 40;
/// The segment of a template in place of any other.
const ANY_SEGMENT: &str = "#";
/// Ends of segments that name a kind of resource or program.
const EXTENSIONS: [&str; 14] =
    ["action", "ashx", "asmx", "aspx", "cgi", "css", "do", "html", "js", "json", "jsp", "php", "svc", "xml"];
/// Words within the number of an API version, such as `v1beta2`.
const VERSION_WORDS: [&str; 5] = [".", "alpha", "beta", "p", "rc"];

/// Returns a path without what tells persons or things apart: a segment stays if it is a word of up to 24 small letters
/// with `-` or `_` between them, several words in camel case, or an API version, and becomes `#` otherwise. Leaves out the
/// query and the fragment. Segments behind the eighth are one `#`. Returns `None` if the text is no path.
#[must_use]
pub fn make_template(path: &str) -> Option<String> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if path.is_empty() {
        return Some("/".to_owned());
    }
    let segments = path.strip_prefix('/').filter(|_| path.len() <= PATH_BYTES)?;
    let mut template = String::new();
    for (number, segment) in segments.split('/').filter(|segment| !segment.is_empty()).enumerate() {
        template.push('/');
        if number >= MOST_SEGMENTS {
            template.push_str(ANY_SEGMENT);
            break;
        }
        template.push_str(if is_kept(segment) { segment } else { ANY_SEGMENT });
    }
    if template.is_empty() {
        template.push('/');
    }
    Some(template)
}

/// Returns the template that an app sends, such as `/users/{id}/orders`. Returns `None` if its characters are not those of
/// one.
pub(super) fn check_template(template: &str) -> Option<&str> {
    let fit = |c: char| c.is_ascii_alphanumeric() || "/-_.~{}:*#$".contains(c);
    let is_template = template.starts_with('/') && template.len() <= SENT_TEMPLATE_BYTES;
    (is_template && template.chars().all(fit)).then_some(template)
}

fn is_kept(segment: &str) -> bool {
    let stem = match segment.rsplit_once('.') {
        Some((stem, end)) if EXTENSIONS.contains(&end) => stem,
        _ => segment,
    };
    let is_small = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let are_words = || stem.split(['-', '_']).all(|part| is_small(part) || is_camel_case(part));
    is_version(segment)
        || (stem.len() <= SEGMENT_LETTERS && are_words())
        || (stem.len() <= CAMEL_CASE_LETTERS && is_camel_case(stem))
}

/// Returns true for `v2`, `v1.1` or `v1beta2`.
fn is_version(segment: &str) -> bool {
    let short = Some(segment).filter(|segment| segment.len() <= SEGMENT_LETTERS);
    let Some(mut rest) = short.and_then(|segment| segment.strip_prefix(['v', 'V'])) else { return false };
    loop {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if !(1..=3).contains(&(rest.len() - behind.len())) {
            return false;
        }
        if behind.is_empty() || VERSION_WORDS[1..].contains(&behind) {
            return behind != "p";
        }
        let Some(next) = VERSION_WORDS.iter().find_map(|word| behind.strip_prefix(word)) else {
            return false;
        };
        rest = next;
    }
}

/// Returns true for two or more words without a character between them, such as `getUserInfo`, `userID` or `GetUserInfo`.
/// Random letters are seldom words: each word has a small letter or ends the segment, and words have two and a half letters on
/// average.
fn is_camel_case(part: &str) -> bool {
    let (mut words, mut rest) = (0, part);
    while !rest.is_empty() {
        let small = rest.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let next = small.trim_start_matches(|c: char| c.is_ascii_lowercase());
        words += match (rest.len() - small.len(), small.len() - next.len()) {
            (0, 2..) | (1, 1..) | (2..=4, 0) => 1,
            // An abbreviation before a word.
            (2..=5, 3..) => 2,
            _ => return false,
        };
        rest = next;
    }
    words >= 2 && 2 * part.len() >= 5 * words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_template_keeps_words_alone() {
        for (path, expected) in [
            ("/", Some("/")),
            ("/orders", Some("/orders")),
            ("/orders/1234/items/", Some("/orders/#/items")),
            ("/v2/users/robin@example.com?token=abc", Some("/v2/users/#")),
            ("/Users/Robin#top", Some("/#/#")),
            ("/order-items/sub_total", Some("/order-items/sub_total")),
            ("/-/a--b/_c", Some("/#/#/#")),
            ("/abcdefghijklmnopqrstuvwxyz", Some("/#")),
            ("/%C3%A4/\u{e4}", Some("/#/#")),
            ("/a/b/c/d/e/f/g/h/i/j/k", Some("/a/b/c/d/e/f/g/h/#")),
            ("//a", Some("/a")),
            ("", Some("/")),
            ("?key=s3", Some("/")),
            ("orders", None),
            ("https://example.com/a", None),
        ] {
            assert_eq!(make_template(path).as_deref(), expected, "{path}");
        }
        assert_eq!(make_template(&format!("/{}", "a/".repeat(2_000))), None);
    }

    #[test]
    fn words_in_camel_case_kinds_of_resources_and_api_versions_stay() {
        for kept in [
            "getUserInfo",
            "getUserInfo.do",
            "userID",
            "getId",
            "parseURLRequest",
            "GetUserInfo",
            "my-getUserInfo_list",
            "cart.json",
            "order-items.php",
            "v1",
            "v12",
            "V2",
            "v1.1",
            "v1beta2",
            "v1p1beta1",
            "v3alpha",
            "getNotificationPreferencesOfUser",
        ] {
            assert_eq!(make_template(&format!("/api/{kept}")).unwrap(), format!("/api/{kept}"));
        }
        for other in [
            "Robin",
            "Users",
            "aB",
            "aGVsbG",
            "dQwXcQ",
            "QWxhZGRpbg",
            "robin.miller",
            "photo.png",
            ".json",
            "1234.json",
            "v1.",
            "v1234",
            "v1p",
            "v1-robin",
            "version2",
            "2026-11-28",
            "getUserInfoOfTheCurrentUserAndOfEveryOtherUser",
        ] {
            assert_eq!(make_template(&format!("/api/{other}")).as_deref(), Some("/api/#"), "{other}");
        }
    }

    #[test]
    fn a_template_of_an_app_has_plain_characters_alone() {
        for template in ["/users/{id}/orders", "/users/:id", "/v1/carts/*:cancel", "/", "/orders/#"] {
            assert_eq!(check_template(template), Some(template));
        }
        let long = format!("/{}", "a".repeat(SENT_TEMPLATE_BYTES));
        for other in ["", "users/{id}", "/users/robin@example.com", "/a?key=s3", "/a b", "/ä", "/%41", &long]
        {
            assert_eq!(check_template(other), None, "{other}");
        }
    }

    /// Returns the template by a second implementation, a state machine over bytes.
    fn machine_template(path: &str) -> String {
        let (mut template, mut segments) = (String::new(), 0);
        let (mut segment, mut after_letter, mut is_word) = (String::new(), false, true);
        for byte in path.bytes().skip(1).chain([b'?']) {
            match byte {
                b'/' | b'?' | b'#' => {
                    if !segment.is_empty() && segments <= MOST_SEGMENTS {
                        let kept = is_word && after_letter && segment.len() <= SEGMENT_LETTERS;
                        template += "/";
                        template += if kept && segments < MOST_SEGMENTS { segment.as_str() } else { "#" };
                        segments += 1;
                    }
                    (segment, after_letter, is_word) = (String::new(), false, true);
                    if byte != b'/' {
                        break;
                    }
                    continue;
                }
                b'a'..=b'z' => after_letter = true,
                b'-' | b'_' if after_letter => after_letter = false,
                _ => is_word = false,
            }
            segment.push(char::from(byte));
        }
        if template.is_empty() { "/".to_owned() } else { template }
    }

    proptest! {
        #[test]
        fn every_path_has_the_template_of_a_second_implementation(path in "/[-a-c01./_?#]{0,60}") {
            prop_assert_eq!(make_template(&path).unwrap(), machine_template(&path));
        }
    }
}
