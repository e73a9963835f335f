//! JSON trees that keep what a DOM loses: the spelling of numbers, the order of members,
//! duplicate keys and white space.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A JSON value. Deep trees are written and dropped without recursion only as far as the depth of
/// real reports goes: for hostile nesting, write the text by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// Any token or text, written as it is: numbers of every spelling, and what is no JSON at all.
    Raw(String),
    /// A string, escaped where JSON requires it.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; a key may occur more than once.
    Object(Vec<(String, Json)>),
}

/// The white space of a written document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// None at all, as the HTTP sink sends reports.
    Compact,
    /// Four spaces a level, as the crash handler writes them.
    Pretty,
    /// Two spaces a level and a space before each colon, as Apple's encoder writes them.
    Apple,
    /// Random white space wherever the grammar allows some, from this seed.
    Wild(u64),
}

impl Json {
    /// `null`.
    #[must_use]
    pub fn null() -> Json {
        Json::Raw("null".into())
    }

    /// An object of these members, in this order.
    #[must_use]
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// An array of these elements.
    #[must_use]
    pub fn array(elements: impl IntoIterator<Item = Json>) -> Json {
        Json::Array(elements.into_iter().collect())
    }

    /// Returns the address as old writers print it: a negative number if its highest bit is set.
    #[must_use]
    pub fn negative(address: u64) -> Json {
        Json::Raw(address.cast_signed().to_string())
    }

    /// The address as it comes out of a float with six significant digits: `1.84467e+19`.
    #[must_use]
    pub fn float(address: u64) -> Json {
        let text = format!("{:.5e}", address as f64);
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        Json::Raw(format!("{digits}e+{exponent:0>2}"))
    }

    /// The member of an object or, by its number, the element of an array.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().rfind(|(name, _)| name == key).map(|(_, value)| value),
            Json::Array(elements) => elements.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Returns the value at a path of keys and numbers with dots between them, and creates it if it is
    /// missing: missing members are added as objects, and what is neither object nor array is replaced by
    /// one.
    pub fn at(&mut self, path: &str) -> &mut Json {
        path.split('.').filter(|key| !key.is_empty()).fold(self, Json::entry)
    }

    fn entry(&mut self, key: &str) -> &mut Json {
        if let Json::Array(elements) = self {
            let index = key.parse::<usize>().unwrap_or_else(|_| panic!("{key} is no index of an array"));
            while elements.len() <= index {
                elements.push(Json::null());
            }
            return &mut elements[index];
        }
        if !matches!(self, Json::Object(_)) {
            *self = Json::Object(Vec::new());
        }
        let Json::Object(members) = self else { unreachable!("made an object above") };
        let index = members.iter().rposition(|(name, _)| name == key).unwrap_or_else(|| {
            members.push((key.into(), Json::null()));
            members.len() - 1
        });
        &mut members[index].1
    }

    /// Removes the member at a path, if there is one.
    pub fn remove(&mut self, path: &str) {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        match self.at(parent) {
            Json::Object(members) => members.retain(|(name, _)| name != key),
            Json::Array(elements) => {
                if let Ok(index) = key.parse::<usize>()
                    && index < elements.len()
                {
                    elements.remove(index);
                }
            }
            _ => {}
        }
    }

    /// Appends an element; to a new array if this is none.
    pub fn push(&mut self, element: Json) {
        if !matches!(self, Json::Array(_)) {
            *self = Json::Array(Vec::new());
        }
        if let Json::Array(elements) = self {
            elements.push(element);
        }
    }

    /// Appends a member even if there is one of that name: a duplicate key.
    pub fn append(&mut self, key: &str, value: Json) {
        if !matches!(self, Json::Object(_)) {
            *self = Json::Object(Vec::new());
        }
        if let Json::Object(members) = self {
            members.push((key.into(), value));
        }
    }

    /// Orders the members of every object by key, as the HTTP sink does.
    pub fn sort(&mut self) {
        match self {
            Json::Array(elements) => elements.iter_mut().for_each(Json::sort),
            Json::Object(members) => {
                members.sort_by(|a, b| a.0.cmp(&b.0));
                members.iter_mut().for_each(|(_, value)| value.sort());
            }
            _ => {}
        }
    }

    /// The document as text.
    #[must_use]
    pub fn write(&self, style: Style) -> Vec<u8> {
        let seed = if let Style::Wild(seed) = style { seed } else { 0 };
        let mut writer = Writer { out: Vec::new(), style, rng: StdRng::seed_from_u64(seed) };
        writer.value(self, 0);
        writer.out
    }
}

struct Writer {
    out: Vec<u8>,
    style: Style,
    rng: StdRng,
}

impl Writer {
    fn value(&mut self, value: &Json, level: usize) {
        match value {
            Json::Raw(raw) => self.out.extend_from_slice(raw.as_bytes()),
            Json::Text(text) => self.text(text),
            Json::Array(elements) => {
                self.out.push(b'[');
                for (index, element) in elements.iter().enumerate() {
                    self.separate(index, level + 1);
                    self.value(element, level + 1);
                }
                self.close(elements.is_empty(), b']', level);
            }
            Json::Object(members) => {
                self.out.push(b'{');
                for (index, (key, value)) in members.iter().enumerate() {
                    self.separate(index, level + 1);
                    self.text(key);
                    self.colon();
                    self.value(value, level + 1);
                }
                self.close(members.is_empty(), b'}', level);
            }
        }
    }

    fn text(&mut self, text: &str) {
        // The escapes of serde_json are those that JSON requires.
        self.out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    }

    fn separate(&mut self, index: usize, level: usize) {
        if index > 0 {
            self.wild();
            self.out.push(b',');
        }
        self.line(level);
    }

    fn colon(&mut self) {
        self.wild();
        let colon: &[u8] = match self.style {
            Style::Compact | Style::Wild(_) => b":",
            Style::Pretty => b": ",
            Style::Apple => b" : ",
        };
        self.out.extend_from_slice(colon);
        self.wild();
    }

    fn close(&mut self, empty: bool, bracket: u8, level: usize) {
        match self.style {
            // Apple's encoder leaves an empty line in an empty container.
            Style::Apple if empty => {
                self.out.push(b'\n');
                self.line(level);
            }
            _ if !empty => self.line(level),
            _ => self.wild(),
        }
        self.out.push(bracket);
    }

    fn line(&mut self, level: usize) {
        let width = match self.style {
            Style::Compact => return,
            Style::Pretty => 4,
            Style::Apple => 2,
            Style::Wild(_) => return self.wild(),
        };
        self.out.push(b'\n');
        self.out.extend(std::iter::repeat_n(b' ', width * level));
    }

    fn wild(&mut self) {
        if matches!(self.style, Style::Wild(_)) {
            for _ in 0..self.rng.random_range(0..3_u32).saturating_sub(1) * self.rng.random_range(1..12) {
                self.out.push(b" \n\t\r"[self.rng.random_range(0..4_usize)]);
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Raw(value.to_string())
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        Json::Raw(number.to_string())
    }
}

impl From<i32> for Json {
    fn from(number: i32) -> Json {
        Json::Raw(number.to_string())
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json::Raw(number.to_string())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or_else(Json::null, Into::into)
    }
}
