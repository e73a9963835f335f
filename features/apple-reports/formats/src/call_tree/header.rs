//! The header of a log with sampled stacks.

use crate::crash_text::AppVersion;
use std::collections::HashMap;
use unslide_report::{JsonValue, ReadLimits};

/// Lines of a text in which fields are searched. Sections of processes follow.
const SEARCHED_LINES: usize = 256;

/// The fields of a text and of the JSON above it.
#[derive(Clone, Debug, Default)]
pub struct TreeHeader {
    fields: HashMap<String, String>,
    json: HashMap<String, String>,
}

impl TreeHeader {
    /// Reads the JSON of the first line, which may be empty, and the fields of the text.
    pub fn from_parts(json: &[u8], text: &str) -> TreeHeader {
        let mut header = TreeHeader::default();
        if let Ok((object, _)) = JsonValue::read(json, 0, &ReadLimits::default()) {
            object.each_member(|key, value| {
                let value = value.decode_string().or_else(|| Some(value.as_unsigned()?.to_string()));
                if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
                    let key = String::from_utf8_lossy(key).into_owned();
                    header.json.insert(key, value.trim().to_owned());
                }
            });
        }
        for line in text.lines().take(SEARCHED_LINES).filter(|line| !line.starts_with([' ', '\t'])) {
            if let Some((key, value)) = line.split_once(':').filter(|(_, value)| !value.trim().is_empty()) {
                header.fields.entry(key.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
            }
        }
        header
    }

    /// Returns a field of the text.
    pub fn find_field(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(String::as_str)
    }

    /// Returns a copy of a field of the text.
    pub fn own_field(&self, key: &str) -> Option<String> {
        self.find_field(key).map(str::to_owned)
    }

    /// Returns a member of the JSON.
    pub fn json_member(&self, key: &str) -> Option<String> {
        self.json.get(key).cloned()
    }

    /// Returns a member of the JSON, or else a field of the text.
    pub fn member_or_field(&self, member: &str, field: &str) -> Option<String> {
        self.json_member(member).or_else(|| self.own_field(field))
    }

    /// Returns the name of the process that the log is about.
    pub fn process_name(&self) -> Option<&str> {
        let line = self.find_field("Command").or_else(|| self.find_field("Process"));
        let name = line.map(|line| line.rsplit_once(" [").map_or(line, |(name, _)| name));
        name.or_else(|| self.json.get("app_name").or_else(|| self.json.get("name")).map(String::as_str))
    }

    /// Returns the version of the app.
    pub fn app_version(&self) -> AppVersion {
        AppVersion::parse_version(
            self.find_field("Version").unwrap_or_default(),
            self.find_field("OS Version").unwrap_or_default(),
        )
    }
}
