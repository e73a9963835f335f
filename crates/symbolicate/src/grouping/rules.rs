//! A tenant's own grouping rules: a small text file with one rule per line. The first rule that matches
//! decides.
//!
//! ```text
//! # What our logger reports is the caller's bug.
//! ignore    function  Shop.Log.*
//! not-app   image     Analytics*
//! app       image     ShopKit
//! ignore    file      */Generated/*
//! sentinel  function  Shop.Router.open*
//! ```

use sha2::{Digest, Sha256};
use std::fmt;
use unslide_model::words;

/// The most rules of one tenant.
pub const MOST_RULES: usize = 200;
/// The most characters of a pattern.
pub const MOST_PATTERN_CHARS: usize = 256;
/// The most bytes of the whole text, including comments.
pub const MOST_TEXT_BYTES: usize = 64 << 10;
/// The most problems that are returned for one text.
const MOST_PROBLEMS: usize = 20;

words! {
    /// Effect of a rule on a function that matches.
    pub enum RuleAction {
        /// It is the app's own, in whichever image.
        App = "app",
        /// It is not the app's own, as if it were a system function.
        NotApp = "not-app",
        /// It does not count.
        Ignore = "ignore",
        /// Counting starts at it: functions that it called do not count.
        Sentinel = "sentinel",
    }
}

words! {
    /// The property that a rule's pattern is compared with.
    pub enum RuleField {
        /// The function's name as grouping compares it, without types.
        Function = "function",
        /// The source file: its name, or its path if the pattern has a slash.
        File = "file",
        /// The image: its name, or its path if the pattern has a slash.
        Image = "image",
    }
}

/// A problem in a text of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RuleProblem {
    /// The line, from 1.
    pub line: usize,
    /// The problem, and how to fix it.
    pub what: String,
}

/// Rules parsed from a text. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupingRules {
    rules: Vec<GroupingRule>,
    hash: String,
}

/// One rule, from one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupingRule {
    line: usize,
    pub(super) action: RuleAction,
    field: RuleField,
    pattern: Glob,
}

/// A function as rules see it. An unknown part matches no pattern.
#[derive(Clone, Copy, Default)]
pub(super) struct Subject<'s> {
    pub(super) function: Option<&'s str>,
    pub(super) file: Option<&'s str>,
    pub(super) image: &'s str,
}

impl GroupingRules {
    /// Parses a text of rules.
    ///
    /// # Errors
    /// Returns the first problems, by line, if a line is not a rule or a limit is exceeded.
    pub fn parse(text: &str) -> Result<GroupingRules, Vec<RuleProblem>> {
        if text.len() > MOST_TEXT_BYTES {
            let what = format!("the text has {} bytes; write at most {MOST_TEXT_BYTES}", text.len());
            return Err(vec![RuleProblem { line: 1, what }]);
        }
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            if rules.len() == MOST_RULES {
                problems.push(RuleProblem { line, what: format!("write at most {MOST_RULES} rules") });
                break;
            }
            match GroupingRule::parse_line(line, content) {
                Ok(rule) => rules.push(rule),
                Err(what) => problems.push(RuleProblem { line, what }),
            }
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
        }
        if problems.is_empty() { Ok(GroupingRules::from_rules(rules)) } else { Err(problems) }
    }

    fn from_rules(rules: Vec<GroupingRule>) -> GroupingRules {
        let mut hash = Sha256::new();
        for rule in &rules {
            hash.update(format!("{} {} {}\n", rule.action, rule.field, rule.pattern));
        }
        let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        GroupingRules { hash: if rules.is_empty() { String::new() } else { hash }, rules }
    }

    /// True if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns 16 hexadecimal digits that are equal for equal rules, ignoring comments; empty without rules.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the first rule that matches.
    pub(super) fn find_match(&self, subject: Subject<'_>) -> Option<&GroupingRule> {
        self.rules.iter().find(|rule| rule.is_match(subject))
    }

    pub(super) fn have_sentinel(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == RuleAction::Sentinel)
    }
}

impl GroupingRule {
    fn parse_line(line: usize, content: &str) -> Result<GroupingRule, String> {
        let word = |text: &'_ str| -> (String, String) {
            let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            (word.to_owned(), rest.trim_start().to_owned())
        };
        let ((action, rest), shown) = (word(content), |word: &str| word.chars().take(40).collect::<String>());
        let (field, pattern) = word(&rest);
        let action = RuleAction::parse(&action).ok_or_else(|| {
            format!("unknown action \"{}\"; begin with app, not-app, ignore or sentinel", shown(&action))
        })?;
        let field = RuleField::parse(&field).ok_or_else(|| {
            format!("unknown field \"{}\"; write function, file or image after {action}", shown(&field))
        })?;
        if pattern.is_empty() {
            return Err(format!("there is no pattern; write one after {action} {field}"));
        }
        if pattern.chars().count() > MOST_PATTERN_CHARS {
            return Err(format!(
                "the pattern has more than {MOST_PATTERN_CHARS} characters; shorten it with *"
            ));
        }
        if pattern.chars().any(char::is_control) {
            return Err("the pattern has a control character; remove it".to_owned());
        }
        Ok(GroupingRule { line, action, field, pattern: Glob::new(&pattern) })
    }

    fn is_match(&self, subject: Subject<'_>) -> bool {
        let in_path = |path: &str| match self.pattern.has_slash() {
            true => self.pattern.is_match(path),
            false => self.pattern.is_match(path.rsplit(['/', '\\']).next().unwrap_or(path)),
        };
        match self.field {
            RuleField::Function => subject.function.is_some_and(|name| self.pattern.is_match(name)),
            RuleField::File => subject.file.is_some_and(in_path),
            RuleField::Image => in_path(subject.image),
        }
    }
}

impl fmt::Display for GroupingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} {} {}", self.line, self.action, self.field, self.pattern)
    }
}

/// A pattern in which `*` matches any number of characters, including none, and all else matches itself.
/// Comparing takes linear time: each part is searched for once, after the part before it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    /// The texts between the stars.
    parts: Vec<String>,
}

impl Glob {
    fn new(pattern: &str) -> Glob {
        Glob { parts: pattern.split('*').map(str::to_owned).collect() }
    }

    fn has_slash(&self) -> bool {
        self.parts.iter().any(|part| part.contains('/'))
    }

    fn is_match(&self, text: &str) -> bool {
        let [first, between @ .., last] = self.parts.as_slice() else {
            return self.parts.first().is_some_and(|whole| whole == text);
        };
        let Some(mut rest) =
            text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()))
        else {
            return false;
        };
        for part in between {
            let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
            rest = after;
        }
        true
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_all_else_for_itself() {
        for (pattern, text, fits) in [
            ("Shop.Log.*", "Shop.Log.error(_:)", true),
            ("Shop.Log.*", "Shop.Log.", true),
            ("Shop.Log.*", "shop.log.error", false),
            ("-[Cart *]", "-[Cart total:]", true),
            ("-[Cart *]", "-[Cart total:", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*ab*ab*", "xabyab", true),
            ("*ab*ab*", "xabay", false),
            ("f", "ff", false),
            ("f?", "fx", false),
            ("é*", "été", true),
        ] {
            assert_eq!(Glob::new(pattern).is_match(text), fits, "{pattern} on {text}");
        }
        // It would take hours if it went back.
        assert!(!Glob::new(&"*a".repeat(128)).is_match(&("a".repeat(100) + "b")));
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let text = "# ours\n\napp image ShopKit\r\n  ignore\tfile  */Generated/*\nnot-app function Log *\n\
                    sentinel file Router.swift\nignore image *";
        let rules = GroupingRules::parse(text).unwrap();
        assert_eq!((rules.len(), rules.have_sentinel(), rules.hash().len()), (5, true, 16));
        let found = |function, file, image| {
            rules.find_match(Subject { function, file, image }).map(ToString::to_string).unwrap_or_default()
        };
        assert_eq!(found(Some("Log x"), None, "/a/ShopKit"), "line 3: app image ShopKit");
        assert_eq!(
            found(Some("Log x"), Some("/a/Generated/b.c"), "Shop"),
            "line 4: ignore file */Generated/*"
        );
        assert_eq!(found(Some("Log x"), Some("/a/b.c"), "Shop"), "line 5: not-app function Log *");
        assert_eq!(found(None, Some("/a/Router.swift"), "Shop"), "line 6: sentinel file Router.swift");
        assert_eq!(found(None, None, ""), "line 7: ignore image *");
        let same = text.replace("# ours", "# other words");
        assert_eq!(GroupingRules::parse(&same).unwrap().hash(), rules.hash());
        assert_eq!(GroupingRules::parse("# none\n").unwrap(), GroupingRules::default());
    }

    #[test]
    fn a_problem_says_the_line_and_what_to_do() {
        let problems = |text: &str| -> Vec<String> {
            GroupingRules::parse(text).unwrap_err().iter().map(ToString::to_string).collect()
        };
        let long = format!("ignore function {}", "é".repeat(257));
        assert_eq!(
            problems(&format!("hide function f\n\nignore name f\napp image\n{long}\nignore file a\u{1}b")),
            [
                "line 1: unknown action \"hide\"; begin with app, not-app, ignore or sentinel",
                "line 3: unknown field \"name\"; write function, file or image after ignore",
                "line 4: there is no pattern; write one after app image",
                "line 5: the pattern has more than 256 characters; shorten it with *",
                "line 6: the pattern has a control character; remove it",
            ]
        );
        assert_eq!(problems(&"ignore function f\n".repeat(201)), ["line 201: write at most 200 rules"]);
        assert_eq!(problems(&"nonsense\n".repeat(5_000)).len(), MOST_PROBLEMS);
        assert!(problems(&"#".repeat(MOST_TEXT_BYTES + 1))[0].contains("65537 bytes"));
    }
}
