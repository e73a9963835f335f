//! Rules applied to the bytes of a report.

use crate::config::ScrubAction;
use crate::mark::KEY_NAME;
use crate::pattern::PatternRule;
use crate::rules::ScrubRules;
use crate::scrub_place::ScrubPlace;
use crate::taken::{ChangedText, TakenCounts};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Depth of a report. The reader of reports refuses deeper ones before.
const DEPTH_LIMIT: usize = 256;

/// The bytes that may be before a JSON text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A report without what the rules took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubbedReport<'a> {
    /// The report. It is the given one if nothing was taken.
    pub bytes: Cow<'a, [u8]>,
    /// How often each rule took something, by the names of the rules.
    pub taken: BTreeMap<String, u64>,
}

/// The report is no JSON that can be scrubbed. It must not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    /// The bytes are no JSON texts.
    #[error("the report is no JSON at byte {at}")]
    Invalid {
        /// The place of the problem.
        at: usize,
    },
    /// Objects and arrays are nested too deeply.
    #[error("the report is nested more than {DEPTH_LIMIT} deep at byte {at}")]
    TooDeep {
        /// The place of the problem.
        at: usize,
    },
}

impl ScrubRules {
    /// Takes what the rules name out of a report.
    ///
    /// # Errors
    /// Returns [`ScrubError`] if the bytes are no JSON or are nested too deeply.
    pub fn scrub_report<'a>(&self, json: &'a [u8]) -> Result<ScrubbedReport<'a>, ScrubError> {
        Ok(self.preview_report(json, 0)?.0)
    }

    /// Does the same, and returns the first texts that are changed, at most `texts_limit`.
    ///
    /// # Errors
    /// Those of [`ScrubRules::scrub_report`].
    pub fn preview_report<'a>(
        &self,
        json: &'a [u8],
        texts_limit: usize,
    ) -> Result<(ScrubbedReport<'a>, Vec<ChangedText>), ScrubError> {
        let taken = TakenCounts::with_texts(texts_limit);
        let mut walk = Walk { rules: self, json, at: 0, edits: Vec::new(), taken };
        walk.at = if json.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        walk.scrub_value(ScrubPlace::Report, 0)?;
        walk.skip_padding();
        // A log of Apple is two JSON texts.
        while walk.at < json.len() {
            if walk.peek() != Some(b'{') {
                return Err(walk.invalid());
            }
            walk.scrub_value(ScrubPlace::Report, 0)?;
            walk.skip_padding();
        }
        let Walk { edits, taken, .. } = walk;
        Ok((ScrubbedReport { bytes: apply_edits(json, &edits), taken: taken.counts }, taken.changed))
    }
}

/// A replacement of bytes.
struct Edit {
    range: Range<usize>,
    text: Vec<u8>,
}

/// A member of an object.
struct Member {
    /// From its name to the end of its value.
    range: Range<usize>,
    /// The place of the comma before it.
    comma: Option<usize>,
    is_dropped: bool,
}

struct Walk<'r, 'a> {
    rules: &'r ScrubRules,
    json: &'a [u8],
    at: usize,
    /// In the order of their ranges, which do not overlap.
    edits: Vec<Edit>,
    taken: TakenCounts,
}

impl Walk<'_, '_> {
    fn invalid(&self) -> ScrubError {
        ScrubError::Invalid { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips what may be behind a JSON text in a document.
    fn skip_padding(&mut self) {
        self.skip_space();
        while self.peek() == Some(0) {
            self.at += 1;
            self.skip_space();
        }
    }

    fn skip_byte(&mut self, wanted: u8) -> Result<(), ScrubError> {
        self.skip_space();
        if self.peek() != Some(wanted) {
            return Err(self.invalid());
        }
        self.at += 1;
        Ok(())
    }

    /// Returns true after a comma, and false after the end of the object or array.
    fn has_next(&mut self, end: u8) -> Result<bool, ScrubError> {
        self.skip_space();
        let has_next = self.peek() == Some(b',');
        if !has_next && self.peek() != Some(end) {
            return Err(self.invalid());
        }
        self.at += 1;
        Ok(has_next)
    }

    /// Passes a string, and returns its range with the quotes.
    fn pass_string(&mut self) -> Result<Range<usize>, ScrubError> {
        self.skip_space();
        let start = self.at;
        self.skip_byte(b'"')?;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(self.invalid()),
            }
        }
        self.at += 1;
        Ok(start..self.at)
    }

    fn scrub_value(&mut self, place: ScrubPlace, depth: usize) -> Result<(), ScrubError> {
        if depth > DEPTH_LIMIT {
            return Err(ScrubError::TooDeep { at: self.at });
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.scrub_object(place, depth),
            Some(b'[') => {
                self.at += 1;
                self.skip_space();
                if self.peek() == Some(b']') {
                    self.at += 1;
                    return Ok(());
                }
                loop {
                    self.scrub_value(place, depth + 1)?;
                    if !self.has_next(b']')? {
                        return Ok(());
                    }
                }
            }
            Some(b'"') => {
                let range = self.pass_string()?;
                if place.is_scrubbed() {
                    self.scrub_string(range);
                } else if place == ScrubPlace::ImagePath {
                    let path = decode_string(&self.json[range.clone()]);
                    self.replace_text_by(&self.rules.path_patterns, range, &path);
                }
                Ok(())
            }
            _ => {
                let start = self.at;
                while self
                    .peek()
                    .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
                {
                    self.at += 1;
                }
                if self.at == start {
                    return Err(self.invalid());
                }
                if place.is_own() {
                    let number = String::from_utf8_lossy(&self.json[start..self.at]).into_owned();
                    self.replace_text(start..self.at, &number);
                }
                Ok(())
            }
        }
    }

    fn scrub_object(&mut self, place: ScrubPlace, depth: usize) -> Result<(), ScrubError> {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let (mut members, mut comma): (Vec<Member>, _) = (Vec::new(), None);
        let before = self.edits.len();
        loop {
            let key = self.pass_string()?;
            let name = decode_string(&self.json[key.clone()]);
            self.skip_byte(b':')?;
            let action = if place.is_own() { self.find_key_action(place, &name) } else { None };
            let edits = self.edits.len();
            match action {
                Some(action) => self.take_value(action, depth)?,
                None => {
                    if place.is_own() {
                        self.scrub_string(key.clone());
                    }
                    self.scrub_value(place.member(&name), depth + 1)?;
                }
            }
            let is_dropped = action == Some(ScrubAction::Drop);
            if is_dropped {
                self.edits.truncate(edits);
            }
            members.push(Member { range: key.start..self.at, comma, is_dropped });
            self.skip_space();
            comma = Some(self.at);
            if !self.has_next(b'}')? {
                break;
            }
        }
        self.drop_members(&members, before);
        Ok(())
    }

    fn find_key_action(&self, place: ScrubPlace, name: &str) -> Option<ScrubAction> {
        let by_name = self.rules.keys.get(name).copied();
        let others = self.rules.keep_only.as_ref().filter(|_| place == ScrubPlace::OwnKeys);
        by_name
            .or_else(|| others.filter(|rule| rule.keys.iter().all(|key| key != name)).map(|rule| rule.action))
    }

    /// Replaces the whole value of an own key, unless it is a mark already.
    fn take_value(&mut self, action: ScrubAction, depth: usize) -> Result<(), ScrubError> {
        self.skip_space();
        let (start, edits, counted) = (self.at, self.edits.len(), self.taken.clone());
        self.scrub_value(ScrubPlace::Structure, depth + 1)?;
        self.edits.truncate(edits);
        self.taken = counted;
        let raw = &self.json[start..self.at];
        let value = if raw.first() == Some(&b'"') {
            decode_string(raw)
        } else {
            String::from_utf8_lossy(raw).into_owned()
        };
        let is_mark = self.rules.marks.find(&value).is_some_and(|found| found.range() == (0..value.len()));
        if is_mark && action != ScrubAction::Drop {
            return Ok(());
        }
        self.taken.add(KEY_NAME, 1);
        let text = self.rules.salt.replace_value(KEY_NAME, action, &value);
        self.taken.keep_text(&value, &text);
        self.edits.push(Edit { range: start..self.at, text: encode_string(&text) });
        Ok(())
    }

    /// Removes members with the commas between them and the others.
    fn drop_members(&mut self, members: &[Member], first_edit: usize) {
        let mut is_any_kept = false;
        let mut removed = Vec::new();
        for (index, member) in members.iter().enumerate() {
            if !member.is_dropped {
                is_any_kept = true;
                continue;
            }
            let range = match (is_any_kept, member.comma, members.get(index + 1)) {
                (true, Some(comma), _) => comma..member.range.end,
                (_, _, Some(next)) => member.range.start..next.range.start,
                (_, _, None) => member.range.clone(),
            };
            removed.push(Edit { range, text: Vec::new() });
        }
        if !removed.is_empty() {
            self.edits.extend(removed);
            self.edits[first_edit..].sort_by_key(|edit| edit.range.start);
        }
    }

    fn scrub_string(&mut self, range: Range<usize>) {
        let text = decode_string(&self.json[range.clone()]);
        self.replace_text(range, &text);
    }

    fn replace_text(&mut self, range: Range<usize>, text: &str) {
        self.replace_text_by(&self.rules.patterns, range, text);
    }

    fn replace_text_by(&mut self, patterns: &[PatternRule], range: Range<usize>, text: &str) {
        if let Some(scrubbed) = self.rules.scrub_text(patterns, text, &mut self.taken) {
            self.edits.push(Edit { range, text: encode_string(&scrubbed) });
        }
    }
}

fn apply_edits<'a>(json: &'a [u8], edits: &[Edit]) -> Cow<'a, [u8]> {
    if edits.is_empty() {
        return Cow::Borrowed(json);
    }
    let (mut out, mut copied) = (Vec::with_capacity(json.len()), 0);
    for edit in edits {
        out.extend_from_slice(&json[copied..edit.range.start]);
        out.extend_from_slice(&edit.text);
        copied = edit.range.end;
    }
    out.extend_from_slice(&json[copied..]);
    Cow::Owned(out)
}

/// Decodes a string with its quotes. What is no text becomes the replacement character.
fn decode_string(quoted: &[u8]) -> String {
    let inner = String::from_utf8_lossy(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default());
    if !inner.contains('\\') {
        return inner.into_owned();
    }
    let mut units: Vec<u16> = Vec::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next() {
                Some('u') => {
                    let digits: String = characters.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xFFFD));
                    continue;
                }
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16_lossy(&units)
}

fn encode_string(text: &str) -> Vec<u8> {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out.into_bytes()
}
