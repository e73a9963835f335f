//! The rules of GitHub: one list of lines, of which the last one that matches decides, with or without owners.
//!
//! Source: "About code owners" in GitHub's documentation.

use crate::file::{
    OwnerRule, OwnersFile, OwnersSection, is_account_path, is_mail_address, list_lines, split_pattern,
};
use crate::pattern::{PathPattern, PatternSegment, WildToken};
use crate::resolve::MAX_OWNERS;

pub(crate) fn parse_text(text: &str) -> OwnersFile {
    let mut file = OwnersFile::default();
    let mut section = OwnersSection::default();
    for (number, line) in list_lines(text) {
        let parse =
            |line| parse_line(number, line).map_err(|problem| format!("{problem}; GitHub skips the line"));
        match line.and_then(parse) {
            Ok(rule) => section.rules.push(rule),
            Err(problem) => file.problems.add_problem(number, || problem),
        }
    }
    file.sections.push(section);
    file
}

fn parse_line(number: u32, line: &str) -> Result<OwnerRule, String> {
    let (text, rest) = split_pattern(line);
    let pattern = build_pattern(text)?;
    let mut owners: Vec<String> = Vec::new();
    for owner in rest.split([' ', '\t']).filter(|word| !word.is_empty()) {
        if owner.starts_with('#') {
            break;
        }
        if !is_owner(owner) {
            return Err(format!("{owner:?} is no user, team or mail address"));
        }
        if owners.len() < MAX_OWNERS && !owners.iter().any(|known| known == owner) {
            owners.push(owner.to_owned());
        }
    }
    Ok(OwnerRule { line: number, text: text.to_owned(), pattern, owners })
}

/// Returns true for `@user`, `@org/team` or a mail address.
fn is_owner(owner: &str) -> bool {
    match owner.strip_prefix('@') {
        Some(name) => is_account_path(name) && name.matches('/').count() <= 1,
        None => is_mail_address(owner),
    }
}

fn build_pattern(text: &str) -> Result<PathPattern, String> {
    if text.starts_with('!') {
        return Err("a pattern cannot be negated with !".to_owned());
    }
    if text.starts_with("\\#") {
        return Err("a pattern cannot begin with an escaped #".to_owned());
    }
    if text.contains("***") {
        return Err("a pattern cannot have three asterisks in a row".to_owned());
    }
    let parts: Vec<Vec<WildToken>> = tokenize(text)?;
    let mut parts = parts.as_slice();
    let mut segments = Vec::new();
    match parts {
        // A slash at the begin: from the root.
        [first, rest @ ..] if first.is_empty() && !rest.is_empty() => parts = rest,
        // A name alone, or with a slash at its end: in any folder.
        [_] => segments.push(PatternSegment::AnyDepth),
        [_, last] if last.is_empty() => segments.push(PatternSegment::AnyDepth),
        _ => {}
    }
    let last = parts.len().saturating_sub(1);
    for (at, part) in parts.iter().enumerate() {
        let is_any_depth = *part == [WildToken::AnyChars, WildToken::AnyChars];
        let is_slash_at_end = at == last && at > 0 && part.is_empty();
        if is_any_depth || is_slash_at_end {
            segments.push(PatternSegment::AnyDepth);
            if at == last {
                // All that is below, but not the folder itself.
                segments.push(PatternSegment::Wild(vec![WildToken::AnyChars]));
            }
            continue;
        }
        segments.push(PatternSegment::from_tokens(part.clone()));
        // A name at the end is a file, or a folder with all that is below. An asterisk is one level.
        if at == last && *part != [WildToken::AnyChars] {
            segments.push(PatternSegment::AnyDepth);
        }
    }
    Ok(PathPattern(segments))
}

/// Splits a pattern at its slashes.
fn tokenize(text: &str) -> Result<Vec<Vec<WildToken>>, String> {
    let mut parts = vec![Vec::new()];
    let mut chars = text.chars();
    while let Some(one) = chars.next() {
        let token = match one {
            '/' => {
                parts.push(Vec::new());
                continue;
            }
            '*' => WildToken::AnyChars,
            '?' => WildToken::AnyChar,
            '[' | ']' => return Err("a pattern cannot have a class of characters in [ ]".to_owned()),
            '#' => return Err("a pattern cannot have a #".to_owned()),
            '\\' => WildToken::Char(chars.next().ok_or("a backslash at the end escapes nothing")?),
            one => WildToken::Char(one),
        };
        if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    Ok(parts)
}
