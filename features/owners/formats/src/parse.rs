//! Reads a file of owners from its bytes.

use crate::file::{
    MAX_HEADINGS, MAX_LINES, MAX_OWNERS_BYTES, MAX_RULES, MAX_WILD_TOKENS, OwnersDialect, OwnersFile,
    OwnersFileError,
};
use crate::{github, gitlab};

impl OwnersFile {
    /// Reads a file by the rules of its dialect.
    ///
    /// # Errors
    /// Returns [`OwnersFileError`] if it is too large or no text. Lines that are wrong are [`OwnersFile::problems`].
    pub fn parse(bytes: &[u8], dialect: OwnersDialect) -> Result<OwnersFile, OwnersFileError> {
        if bytes.len() > MAX_OWNERS_BYTES {
            return Err(OwnersFileError::TooLarge(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            OwnersFileError::NotText(before.iter().filter(|byte| **byte == b'\n').count() + 1)
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Before they are read: a rule takes many times the bytes of its line.
        let is_heading = |line: &&str| line.trim_start().starts_with(['[', '^']);
        if text.lines().count() > MAX_LINES || text.lines().filter(is_heading).count() > MAX_HEADINGS {
            return Err(OwnersFileError::TooManyLines);
        }
        let file = match dialect {
            OwnersDialect::GitHub => github::parse_text(text),
            OwnersDialect::GitLab => gitlab::parse_text(text),
        };
        if file.count_rules() > MAX_RULES {
            return Err(OwnersFileError::TooManyLines);
        }
        if file.count_wild_tokens() > MAX_WILD_TOKENS {
            return Err(OwnersFileError::TooManyWildcards);
        }
        Ok(file)
    }
}
