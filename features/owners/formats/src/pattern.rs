//! Patterns of paths: segments with wildcards, and any number of folders between them.

/// The segments of a path of a repository.
pub struct PathSegments(Vec<Vec<char>>);

impl PathSegments {
    pub fn new(path: &str) -> PathSegments {
        PathSegments(path.split('/').map(|segment| segment.chars().collect()).collect())
    }
}

/// A pattern. It matches whole paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern(pub Vec<PatternSegment>);

/// A part of a pattern between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternSegment {
    /// Any number of segments, none included.
    AnyDepth,
    /// One segment with this text.
    Text(Box<str>),
    /// One segment with wildcards.
    Wild(Vec<WildToken>),
}

/// A part of a segment with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WildToken {
    Char(char),
    AnyChar,
    AnyChars,
    /// A character in one of these ranges, or in none of them.
    Class(Box<CharClass>),
}

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharClass {
    pub is_negated: bool,
    pub ranges: Vec<(char, char)>,
}

impl PathPattern {
    pub fn is_match(&self, path: &PathSegments) -> bool {
        match_wild(
            &self.0,
            &path.0,
            |segment| *segment == PatternSegment::AnyDepth,
            |segment, text| segment.is_match(text),
        )
    }

    /// Returns the number of tokens in segments with wildcards.
    pub fn count_wild_tokens(&self) -> usize {
        let tokens = self.0.iter().map(|segment| match segment {
            PatternSegment::Wild(tokens) => tokens.len(),
            PatternSegment::AnyDepth | PatternSegment::Text(_) => 0,
        });
        tokens.sum()
    }

    /// Returns true if a segment of the pattern is this text.
    pub fn has_segment(&self, text: &str) -> bool {
        self.0.iter().any(|segment| matches!(segment, PatternSegment::Text(own) if **own == *text))
    }
}

impl PatternSegment {
    /// Makes the segment of these tokens.
    pub fn from_tokens(tokens: Vec<WildToken>) -> PatternSegment {
        let text = tokens.iter().map(|token| match token {
            WildToken::Char(one) => Some(*one),
            _ => None,
        });
        match text.collect::<Option<String>>() {
            Some(text) => PatternSegment::Text(text.into()),
            None => PatternSegment::Wild(tokens),
        }
    }

    fn is_match(&self, text: &[char]) -> bool {
        match self {
            PatternSegment::AnyDepth => false,
            PatternSegment::Text(own) => own.chars().eq(text.iter().copied()),
            PatternSegment::Wild(tokens) => match_wild(
                tokens,
                text,
                |token| *token == WildToken::AnyChars,
                |token, one| match token {
                    WildToken::Char(own) => own == one,
                    WildToken::AnyChar => true,
                    WildToken::AnyChars => false,
                    WildToken::Class(class) => class.is_match(*one),
                },
            ),
        }
    }
}

impl CharClass {
    fn is_match(&self, one: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&one)) != self.is_negated
    }
}

/// Matches items with a list in which a wildcard is any number of items. Only the last wildcard that was met is tried
/// again with more items: what an earlier one could take, the later one can, too.
fn match_wild<P, T>(
    pattern: &[P],
    items: &[T],
    is_wildcard: impl Fn(&P) -> bool,
    is_match: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut item) = (0, 0);
    // The place after the last wildcard, and the items that it has taken.
    let mut last: Option<(usize, usize)> = None;
    while let Some(current) = items.get(item) {
        match pattern.get(at) {
            Some(part) if is_wildcard(part) => {
                at += 1;
                last = Some((at, item));
            }
            Some(part) if is_match(part, current) => (at, item) = (at + 1, item + 1),
            _ => {
                let Some((after, taken)) = last else { return false };
                (at, item) = (after, taken + 1);
                last = Some((after, taken + 1));
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(is_wildcard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gitlab::build_pattern;

    #[test]
    fn wildcards_take_as_much_as_they_need() {
        for (pattern, path, fits) in [
            ("/a*b*c", "axxbyyc", true),
            ("/a*b*c", "axxbyy", false),
            ("/a*b*bc", "abbbc", true),
            ("/a/**/b/**/c", "a/b/x/b/c", true),
            ("/a/**/b/**/c", "a/x/c", false),
            ("/**/x/y", "x/x/y", true),
            ("/a?c", "a/c", false),
            ("/[a-c][!x]", "by", true),
            ("/[a-c][!x]", "bx", false),
            ("/[a-c]z", "dz", false),
        ] {
            let built = build_pattern(pattern).unwrap();
            assert_eq!(built.is_match(&PathSegments::new(path)), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn many_wildcards_take_little_time() {
        let pattern = build_pattern(&format!("/{}b", "*a".repeat(500))).unwrap();
        assert!(!pattern.is_match(&PathSegments::new(&"a".repeat(1_000))));
        let pattern = build_pattern(&format!("/{}b", "**/a/".repeat(200))).unwrap();
        assert!(!pattern.is_match(&PathSegments::new(&"a/".repeat(400))));
    }
}
