//! Attributes of records and resources, within bounds.

use std::borrow::Cow;

/// The maximum number of attributes of a record that are read, and of a resource.
pub const ATTRIBUTES_LIMIT: usize = 256;

/// The value of an attribute. Lists, maps and bytes are not read: no sender writes a part of a crash so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// A value that is a text.
    Text(Cow<'a, str>),
    /// A number, in decimal digits.
    Number(String),
    /// A value that is true or false.
    Flag(bool),
}

/// The attributes of a record or a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    entries: Vec<(Cow<'a, str>, AttributeValue<'a>)>,
    seen: usize,
}

impl<'a> Attributes<'a> {
    /// Adds an attribute, unless there are too many. None is one with a value that is not read.
    pub(crate) fn add_attribute(&mut self, key: Cow<'a, str>, value: Option<AttributeValue<'a>>) {
        self.seen += 1;
        if let Some(value) = value
            && self.seen <= ATTRIBUTES_LIMIT
        {
            self.entries.push((key, value));
        }
    }

    /// Returns true if there are more attributes than are read.
    #[must_use]
    pub fn has_too_many(&self) -> bool {
        self.seen > ATTRIBUTES_LIMIT
    }

    /// Returns the last value of an attribute.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&AttributeValue<'a>> {
        self.entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the text or the number of an attribute.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            AttributeValue::Text(text) => Some(text.as_ref()).filter(|text| !text.trim().is_empty()),
            AttributeValue::Number(number) => Some(number),
            AttributeValue::Flag(_) => None,
        }
    }
}
