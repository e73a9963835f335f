//! The rules of GitLab: sections, each with a last line that matches, owners in headings, and exclusions.
//!
//! Patterns are those of Ruby's `File.fnmatch` with `FNM_PATHNAME` and `FNM_DOTMATCH`. Source: "Code Owners" in GitLab's
//! documentation, syntax and error handling.

use crate::file::{
    OwnerRule, OwnersFile, OwnersLineProblems, OwnersSection, is_account_path, is_mail_address, list_lines,
    split_pattern,
};
use crate::pattern::{CharClass, PathPattern, PatternSegment, WildToken};
use crate::resolve::MAX_OWNERS;

/// Owners by their role in the project.
const ROLES: [&str; 6] =
    ["@@developer", "@@developers", "@@maintainer", "@@maintainers", "@@owner", "@@owners"];

pub(crate) fn parse_text(text: &str) -> OwnersFile {
    let mut file = OwnersFile::default();
    // Lines before the first heading.
    file.sections.push(OwnersSection::default());
    let (mut current, mut defaults) = (0, Vec::new());
    for (number, line) in list_lines(text) {
        let line = match line {
            Ok(line) => line,
            Err(problem) => {
                file.problems.add_problem(number, || problem);
                continue;
            }
        };
        let problems = &mut file.problems;
        if let Some(heading) = read_heading(line) {
            defaults = read_owners(heading.rest, number, problems);
            current = find_section(&mut file.sections, heading.name);
            continue;
        }
        let section = &mut file.sections[current];
        if let Some(excluded) = line.strip_prefix('!') {
            match build_pattern(split_pattern(excluded).0) {
                Some(pattern) => section.excluded.push(pattern),
                None => problems.add_problem(number, || {
                    "the class of characters has no end; the line matches nothing".to_owned()
                }),
            }
            continue;
        }
        let (text, rest) = split_pattern(line);
        let mut owners = read_owners(rest, number, problems);
        if owners.is_empty() {
            owners.clone_from(&defaults);
        }
        let Some(pattern) = build_pattern(text) else {
            problems.add_problem(number, || {
                "a heading of a section or a class of characters has no end; the line matches nothing"
                    .to_owned()
            });
            continue;
        };
        if owners.is_empty() {
            problems.add_problem(number, || {
                "the line names no owner, and its section has none; what it matches has no owner".to_owned()
            });
        }
        section.rules.push(OwnerRule { line: number, text: text.to_owned(), pattern, owners });
    }
    file
}

struct Heading<'t> {
    name: &'t str,
    /// The owners of lines that name none.
    rest: &'t str,
}

/// Reads `[Name]`, `^[Name]` or `[Name][2]`, with owners after it.
fn read_heading(line: &str) -> Option<Heading<'_>> {
    let inner = line.strip_prefix('^').unwrap_or(line).strip_prefix('[')?;
    let (name, mut rest) = inner.split_once(']')?;
    if name.trim().is_empty() {
        return None;
    }
    if let Some((approvals, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        if approvals.is_empty() || !approvals.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        rest = after;
    }
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some(Heading { name: name.trim(), rest })
}

/// Returns the place of a section. Names are compared without regard to case.
fn find_section(sections: &mut Vec<OwnersSection>, name: &str) -> usize {
    let folded = name.to_lowercase();
    let is_same =
        |section: &OwnersSection| section.name.as_ref().is_some_and(|known| known.to_lowercase() == folded);
    sections.iter().position(is_same).unwrap_or_else(|| {
        sections.push(OwnersSection { name: Some(name.to_owned()), ..OwnersSection::default() });
        sections.len() - 1
    })
}

/// Reads owners. A word that is none is left out, and the others count.
fn read_owners(text: &str, line: u32, problems: &mut OwnersLineProblems) -> Vec<String> {
    let mut owners: Vec<String> = Vec::new();
    for word in text.split([' ', '\t']).filter(|word| !word.is_empty()) {
        let is_owner = match word.strip_prefix('@') {
            Some(name) => ROLES.contains(&word) || is_account_path(name),
            None => is_mail_address(word),
        };
        if !is_owner {
            problems.add_problem(line, || {
                format!("{word:?} is no user, group, role or mail address; GitLab ignores it")
            });
        } else if owners.len() < MAX_OWNERS && !owners.iter().any(|known| known == word) {
            owners.push(word.to_owned());
        }
    }
    owners
}

/// Builds a pattern; `None` if it has a class of characters without an end, which matches nothing.
pub(crate) fn build_pattern(text: &str) -> Option<PathPattern> {
    let text = if text.starts_with("\\#") { text.trim_start_matches('\\') } else { text };
    // A slash alone is the folder of the repository, with all that is below.
    if !text.is_empty() && text.bytes().all(|byte| byte == b'/') {
        return Some(PathPattern(vec![
            PatternSegment::AnyDepth,
            PatternSegment::Wild(vec![WildToken::AnyChars]),
        ]));
    }
    // Without a slash at the begin, at any depth.
    let is_rooted = text.starts_with('/');
    let mut parts: Vec<&str> = text.strip_prefix('/').unwrap_or(text).split('/').collect();
    let is_folder = parts.len() > 1 && parts.last() == Some(&"");
    if is_folder {
        parts.pop();
    }
    let mut segments = if is_rooted { Vec::new() } else { vec![PatternSegment::AnyDepth] };
    let last = parts.len().saturating_sub(1);
    for (at, part) in parts.iter().enumerate() {
        // Two asterisks are any depth only before a slash.
        if *part == "**" && (at < last || is_folder) {
            segments.push(PatternSegment::AnyDepth);
        } else {
            segments.push(PatternSegment::from_tokens(tokenize(part)?));
        }
    }
    if is_folder {
        segments.extend([PatternSegment::AnyDepth, PatternSegment::Wild(vec![WildToken::AnyChars])]);
    }
    Some(PathPattern(segments))
}

fn tokenize(part: &str) -> Option<Vec<WildToken>> {
    let mut tokens = Vec::new();
    let mut rest = part.chars();
    while let Some(one) = rest.next() {
        tokens.push(match one {
            '*' => WildToken::AnyChars,
            '?' => WildToken::AnyChar,
            '\\' => WildToken::Char(rest.next().unwrap_or('\\')),
            '[' => {
                let (class, after) = read_class(rest.as_str())?;
                rest = after.chars();
                WildToken::Class(Box::new(class))
            }
            one => WildToken::Char(one),
        });
    }
    Some(tokens)
}

/// Reads a class of characters after its bracket, and returns the rest of the text.
fn read_class(text: &str) -> Option<(CharClass, &str)> {
    let inner = text.strip_prefix(['!', '^']);
    let mut class = CharClass { is_negated: inner.is_some(), ranges: Vec::new() };
    let mut rest = inner.unwrap_or(text).chars();
    loop {
        let mut first = rest.next()?;
        if first == ']' {
            return Some((class, rest.as_str()));
        }
        if first == '\\' {
            first = rest.next()?;
        }
        let mut last = first;
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') && ahead.clone().next().is_some_and(|next| next != ']') {
            last = ahead.next()?;
            if last == '\\' {
                last = ahead.next()?;
            }
            rest = ahead;
        }
        class.ranges.push((first, last));
    }
}
