//! Compiled rules of an app.

use crate::config::{
    KEY_NAME_BYTES, KeepOnlyRule, OWN_PATTERN_BYTES, RULES_LIMIT, ReadyPattern, ScrubAction, ScrubConfig,
    ScrubConfigError,
};
use crate::mark::{KEY_NAME, ScrubSalt, compile_marks};
use crate::pattern::PatternRule;
use crate::ready::expression;
use regex::{Regex, RegexBuilder};
use std::collections::BTreeMap;

/// Memory of a compiled own pattern, and of its cache.
const COMPILED_BYTES_LIMIT: usize = 1 << 20;

/// Compiled rules of an app, with the salt of its tenant.
#[derive(Clone, Debug)]
pub struct ScrubRules {
    pub(crate) patterns: Vec<PatternRule>,
    /// Those of them that also take something out of paths of images.
    pub(crate) path_patterns: Vec<PatternRule>,
    pub(crate) keys: BTreeMap<String, ScrubAction>,
    pub(crate) keep_only: Option<KeepOnlyRule>,
    pub(crate) marks: Regex,
    pub(crate) salt: ScrubSalt,
}

impl ScrubRules {
    /// Compiles rules.
    ///
    /// # Errors
    /// Returns the first problem of a rule.
    pub fn compile(config: &ScrubConfig, salt: ScrubSalt) -> Result<ScrubRules, ScrubConfigError> {
        let kept = config.keep_only.as_ref().map_or(0, |rule| rule.keys.len());
        for (list, count) in [
            ("ready", config.ready.len()),
            ("own", config.own.len()),
            ("keys", config.keys.len()),
            ("keep_only.keys", kept),
        ] {
            if count > RULES_LIMIT {
                return Err(ScrubConfigError::TooMany { list, count });
            }
        }
        let keys =
            config.keys.iter().map(|rule| &rule.key).enumerate().map(|(index, key)| ("keys", index, key));
        let kept_keys = config.keep_only.iter().flat_map(|rule| &rule.keys).enumerate();
        let kept_keys = kept_keys.map(|(index, key)| ("keep_only.keys", index, key));
        if let Some((list, index, key)) = keys.chain(kept_keys).find(|(.., key)| key.len() > KEY_NAME_BYTES) {
            return Err(ScrubConfigError::LongKey { list, index, bytes: key.len() });
        }
        let is_repeated = |index: usize| {
            config.ready[..index].iter().any(|earlier| earlier.pattern == config.ready[index].pattern)
        };
        if let Some(index) = (0..config.ready.len()).find(|index| is_repeated(*index)) {
            return Err(ScrubConfigError::RepeatedPattern { index });
        }
        let mut patterns = Vec::new();
        let mut ready = config.ready.clone();
        ready.sort_by_key(|rule| rule.pattern);
        for rule in ready {
            let compiled = compile_expression(expression(rule.pattern), 0)?;
            patterns.push(PatternRule {
                name: rule.pattern.as_str().to_owned(),
                expression: compiled,
                ready: Some(rule.pattern),
                action: rule.action,
            });
        }
        for (index, rule) in config.own.iter().enumerate() {
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let is_taken = rule.name == KEY_NAME
                || ReadyPattern::ALL.iter().any(|ready| ready.as_str() == rule.name)
                || config.own[..index].iter().any(|other| other.name == rule.name);
            if rule.name.is_empty() || rule.name.len() > 32 || !rule.name.chars().all(is_word) || is_taken {
                return Err(ScrubConfigError::InvalidName { index });
            }
            let bytes = rule.pattern.len();
            if bytes > OWN_PATTERN_BYTES {
                return Err(ScrubConfigError::LongPattern { index, bytes });
            }
            let expression = compile_expression(&rule.pattern, index)?;
            if expression.is_match("") {
                return Err(ScrubConfigError::EmptyMatch { index });
            }
            let (name, action) = (rule.name.clone(), rule.action);
            patterns.push(PatternRule { name, expression, ready: None, action });
        }
        let names = patterns.iter().map(|rule| rule.name.as_str());
        let marks = compile_marks(names)
            .map_err(|error| ScrubConfigError::InvalidPattern { index: 0, detail: error.to_string() })?;
        let keys = config.keys.iter().map(|rule| (rule.key.clone(), rule.action)).collect();
        let is_path = |rule: &&PatternRule| rule.ready == Some(ReadyPattern::UserPath);
        let path_patterns = patterns.iter().filter(is_path).cloned().collect();
        Ok(ScrubRules { patterns, path_patterns, keys, keep_only: config.keep_only.clone(), marks, salt })
    }
}

fn compile_expression(text: &str, index: usize) -> Result<Regex, ScrubConfigError> {
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(COMPILED_BYTES_LIMIT).dfa_size_limit(COMPILED_BYTES_LIMIT).nest_limit(50);
    builder.build().map_err(|error| ScrubConfigError::InvalidPattern { index, detail: error.to_string() })
}
