//! JSON from outside: structs are read from objects only.
//!
//! Serde's derived code also reads a struct from an array, in the order of its fields. The API does not promise that
//! order to clients, and `[]` would be a struct without any field.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use std::fmt;

/// The message for a value that must be an object and is not.
pub const OBJECT_EXPECTED: &str = "an object is expected";

/// The error for JSON that is malformed or has the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

/// Reads a value from the whole of a JSON text. Every struct in it, at any depth, must be an object.
///
/// # Errors
/// [`JsonError`], which names the wrong member, if there is one, and the place in the text.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, JsonError> {
    let mut text = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(FieldsByName(&mut text)).map_err(describe_error)?;
    text.end().map_err(|error| JsonError(error.to_string()))?;
    Ok(value)
}

/// Reads a value from a JSON value. Every struct in it must be an object.
///
/// # Errors
/// [`JsonError`], which names the wrong member, if there is one.
pub fn from_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, JsonError> {
    serde_path_to_error::deserialize(FieldsByName(value)).map_err(describe_error)
}

/// Adds the path of the wrong member. The path `.` is the whole text.
fn describe_error(error: serde_path_to_error::Error<serde_json::Error>) -> JsonError {
    let path = error.path().to_string();
    let message = plain_words(&error.into_inner().to_string());
    JsonError(if path == "." { message } else { format!("{path}: {message}") })
}

/// Types as serde names them, and as our messages name them.
const WORDS: [(&str, &str); 14] = [
    ("an RFC3339-formatted `OffsetDateTime`", "a time such as 2026-11-20T09:00:00Z"),
    ("a formatted UUID string", "a UUID"),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0"),
    ("usize", "a whole number from 0"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("a sequence", "an array"),
    ("a map", "an object"),
    ("a boolean", "true or false"),
];

/// Replaces the Rust names of types in a message of serde.
fn plain_words(message: &str) -> String {
    let Some((wrong, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let (expected, place) = match expected.rfind(" at line ") {
        Some(at) => expected.split_at(at),
        None => (expected, ""),
    };
    if expected.starts_with("struct ") || expected.starts_with("internally tagged enum ") {
        return format!("{OBJECT_EXPECTED}{place}");
    }
    let word = WORDS.iter().find(|(rust, _)| *rust == expected).map(|(_, word)| *word);
    let word = word.unwrap_or(match expected {
        other if other.starts_with("enum ") => "a word",
        other if other.starts_with("tuple struct ") => "another value",
        other => other,
    });
    let wrong = wrong.replace("invalid type: sequence", "invalid type: array");
    let wrong = wrong.replace("invalid type: map", "invalid type: object");
    format!("{wrong}, expected {word}{place}")
}

/// A deserializer that reads structs, at any depth, from maps and never from sequences.
pub struct FieldsByName<D>(pub D);

/// Declares methods that forward a call and read the contents of the value by name.
macro_rules! forward {
    ($($method:ident($($argument:ident: $kind:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, Self::Error> {
            self.0.$method($($argument,)* ByName { visitor, is_struct: false })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for FieldsByName<D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_struct(name, fields, ByName { visitor, is_struct: true })
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// A visitor that reads the contents of its value by name.
struct ByName<V> {
    visitor: V,
    /// True if the value is a struct.
    is_struct: bool,
}

/// Declares methods for single values. A struct is never a single value.
macro_rules! visit_single {
    ($($method:ident($($argument:ident: $kind:ty),*);)*) => {$(
        fn $method<E: Error>(self, $($argument: $kind),*) -> Result<Self::Value, E> {
            match self.is_struct {
                true => Err(E::custom(OBJECT_EXPECTED)),
                false => self.visitor.$method($($argument),*),
            }
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ByName<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    visit_single! {
        visit_bool(value: bool);
        visit_i64(value: i64);
        visit_i128(value: i128);
        visit_u64(value: u64);
        visit_u128(value: u128);
        visit_f64(value: f64);
        visit_char(value: char);
        visit_str(value: &str);
        visit_borrowed_str(value: &'de str);
        visit_string(value: String);
        visit_bytes(value: &[u8]);
        visit_borrowed_bytes(value: &'de [u8]);
        visit_byte_buf(value: Vec<u8>);
        visit_none();
        visit_unit();
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        self.visitor.visit_some(FieldsByName(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        self.visitor.visit_newtype_struct(FieldsByName(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        match self.is_struct {
            true => Err(A::Error::custom(OBJECT_EXPECTED)),
            false => self.visitor.visit_seq(Inside(items)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        self.visitor.visit_map(Inside(members))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<Self::Value, A::Error> {
        self.visitor.visit_enum(Inside(variant))
    }
}

/// The items, members or variant of a value.
struct Inside<A>(A);

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Inside<A> {
    type Error = A::Error;
    type Variant = Inside<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (name, variant) = self.0.variant_seed(seed)?;
        Ok((name, Inside(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Inside(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, ByName { visitor, is_struct: false })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, ByName { visitor, is_struct: true })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Inside<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(FieldsByName(deserializer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Outer {
        size: u16,
        at: Option<Inner>,
        all: Vec<Inner>,
        named: BTreeMap<String, Inner>,
        pair: Option<(u8, Inner)>,
        word: Option<Word>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        n: u8,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Plain,
        With(Inner),
        Fields { n: u8 },
    }

    fn problem(json: &str) -> String {
        from_slice::<Outer>(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn objects_are_read_at_every_depth() {
        let json = r#"{"size": 3, "at": {"n": 1}, "all": [{"n": 2}], "named": {"a": {"n": 3}}, "pair": [4, {"n": 5}]}"#;
        let expected = Outer {
            size: 3,
            at: Some(Inner { n: 1 }),
            all: vec![Inner { n: 2 }],
            named: [("a".to_owned(), Inner { n: 3 })].into(),
            pair: Some((4, Inner { n: 5 })),
            word: None,
        };
        assert_eq!(from_slice::<Outer>(json.as_bytes()), Ok(expected));
        for (json, word) in [
            (r#"{"word": "plain"}"#, Word::Plain),
            (r#"{"word": {"with": {"n": 1}}}"#, Word::With(Inner { n: 1 })),
            (r#"{"word": {"fields": {"n": 2}}}"#, Word::Fields { n: 2 }),
        ] {
            assert_eq!(from_slice::<Outer>(json.as_bytes()).unwrap().word, Some(word), "{json}");
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert!(from_value::<Outer>(value).unwrap().word.is_some(), "{json}");
        }
    }

    #[test]
    fn what_is_no_object_is_no_struct_at_any_depth() {
        for json in ["[]", "[3]", "[null, null]", "\"x\"", "1", "-1", "1.5", "true", "null"] {
            let found = problem(json);
            assert!(found.starts_with(OBJECT_EXPECTED), "{json}: {found}");
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(from_value::<Outer>(value).unwrap_err().to_string(), OBJECT_EXPECTED, "{json}");
        }
        for (json, path) in [
            (r#"{"at": [1]}"#, "at"),
            (r#"{"at": 1}"#, "at"),
            (r#"{"all": [[2]]}"#, "all[0]"),
            (r#"{"all": [{"n": 1}, null]}"#, "all[1]"),
            (r#"{"named": {"a": [3]}}"#, "named.a"),
            (r#"{"pair": [4, [5]]}"#, "pair[1]"),
            (r#"{"word": {"with": [1]}}"#, "word.with"),
            (r#"{"word": {"fields": [1]}}"#, "word.fields"),
        ] {
            let found = problem(json);
            assert!(found.starts_with(&format!("{path}: {OBJECT_EXPECTED}")), "{json}: {found}");
        }
    }

    #[test]
    fn messages_speak_of_json_and_not_of_rust() {
        for (json, expected) in [
            (
                r#"{"size": -1}"#,
                "size: invalid value: integer `-1`, expected a whole number from 0 to 65535 at line 1 column 11",
            ),
            (
                r#"{"size": "x"}"#,
                "size: invalid type: string \"x\", expected a whole number from 0 to 65535 at line 1 column 12",
            ),
            (r#"{"all": {}}"#, "all: invalid type: object, expected an array at line 1 column 8"),
            (r#"{"size": 1, "size": 2}"#, "duplicate field `size` at line 1 column 18"),
            (
                r#"{"colour": 1}"#,
                "colour: unknown field `colour`, expected one of `size`, `at`, `all`, `named`, `pair`, `word` at line 1 column 9",
            ),
            ("{} x", "trailing characters at line 1 column 4"),
            ("", "EOF while parsing a value at line 1 column 0"),
        ] {
            assert_eq!(problem(json), expected, "{json}");
        }
    }
}
