//! The form of the variables in our key.

use super::scrub::is_secret;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Write as _;
use unslide_fault_analysis_variables::{ValueSource, VariableKind, VariableTypeKind, VariableValue};
use unslide_symbolicate::{AnalysisFinding, MOST_FINDING_BYTES};

/// The most bytes of a name. A longer one is cut.
const MOST_NAME_BYTES: usize = 200;
/// The reason for which a secret has no value.
const SCRUBBED: &str = "scrubbed";

/// A variable of a frame.
#[derive(Serialize)]
struct WrittenVariable<'v> {
    frame: u32,
    call: usize,
    function: Cow<'v, str>,
    name: Cow<'v, str>,
    #[serde(rename = "type")]
    type_name: Cow<'v, str>,
    kind: &'static str,
    /// How the bytes are read.
    encoding: &'static str,
    /// The bytes in the order of memory, with `?` for an unknown nibble.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<ValueEvidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'static str>,
}

#[derive(Serialize)]
struct ValueEvidence {
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<&'static str>,
    /// The offset of the variable's entry in `.debug_info`.
    die: u64,
}

/// Writes variables, the innermost call first, as many as fit the limit of a finding.
pub fn write_variables(values: &[VariableValue]) -> Option<AnalysisFinding> {
    let mut list = String::from("[");
    for value in values {
        let written = serde_json::to_string(&WrittenVariable::from_value(value)).ok()?;
        if list.len() + written.len() + 2 > MOST_FINDING_BYTES {
            break;
        }
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(&written);
    }
    if list.len() == 1 {
        return None;
    }
    list.push(']');
    RawValue::from_string(list).ok().map(|value| AnalysisFinding { value, headline: None })
}

impl<'v> WrittenVariable<'v> {
    fn from_value(value: &'v VariableValue) -> WrittenVariable<'v> {
        let mut written = WrittenVariable {
            frame: 0,
            call: value.call,
            function: cut_name(&value.function),
            name: cut_name(&value.name),
            type_name: cut_name(&value.type_name),
            kind: kind_word(value.kind),
            encoding: encoding_word(value.type_kind),
            bytes: None,
            source: None,
            evidence: None,
            unavailable: None,
        };
        match &value.value {
            _ if is_secret(&value.name, &value.type_name) => written.unavailable = Some(SCRUBBED),
            Err(reason) => written.unavailable = Some(reason.as_str()),
            Ok((bytes, source)) => {
                written.bytes = Some(format_bytes(bytes));
                written.source = Some(source_word(*source));
                let register = match source {
                    ValueSource::Register(register) => Some(*register),
                    _ => None,
                };
                written.evidence = Some(ValueEvidence { register, die: value.die });
            }
        }
        written
    }
}

fn cut_name(name: &str) -> Cow<'_, str> {
    if name.len() <= MOST_NAME_BYTES {
        return Cow::Borrowed(name);
    }
    let end = name.floor_char_boundary(MOST_NAME_BYTES);
    Cow::Owned(format!("{}…", name.get(..end).unwrap_or_default()))
}

fn format_bytes(bytes: &[Option<u8>]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = match byte {
            Some(byte) => write!(text, "{byte:02x}"),
            None => write!(text, "??"),
        };
        text
    })
}

fn kind_word(kind: VariableKind) -> &'static str {
    match kind {
        VariableKind::Parameter => "parameter",
        VariableKind::Local => "local",
        VariableKind::Static => "static",
    }
}

fn source_word(source: ValueSource) -> &'static str {
    match source {
        ValueSource::Register(_) => "register",
        ValueSource::Stack => "stack",
        ValueSource::Constant => "constant",
        ValueSource::Computed => "computed",
        ValueSource::Parts => "parts",
    }
}

fn encoding_word(kind: VariableTypeKind) -> &'static str {
    match kind {
        VariableTypeKind::Boolean => "boolean",
        VariableTypeKind::Signed => "signed",
        VariableTypeKind::Unsigned => "unsigned",
        VariableTypeKind::Character => "character",
        VariableTypeKind::Float => "float",
        VariableTypeKind::Pointer => "pointer",
        VariableTypeKind::Enumeration => "enumeration",
        VariableTypeKind::Composite => "composite",
        VariableTypeKind::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use unslide_fault_analysis_variables::{TypeId, UnknownValue};

    fn variable(name: &str, value: Result<(Vec<Option<u8>>, ValueSource), UnknownValue>) -> VariableValue {
        VariableValue {
            call: 0,
            function: "score_of".to_owned(),
            name: name.to_owned(),
            type_name: "int".to_owned(),
            type_id: TypeId::default(),
            die: 144,
            type_kind: VariableTypeKind::Signed,
            kind: VariableKind::Local,
            value,
        }
    }

    fn write(values: &[VariableValue]) -> Value {
        let found = write_variables(values).unwrap();
        assert!(found.value.get().len() <= MOST_FINDING_BYTES);
        serde_json::from_str(found.value.get()).unwrap()
    }

    #[test]
    fn values_have_their_bytes_and_secrets_have_none() {
        let seven = || Ok((vec![Some(7), Some(0), None, Some(0xfe)], ValueSource::Register("x0")));
        let written = write(&[
            variable("count", seven()),
            variable("user_pin", seven()),
            variable("base", Err(UnknownValue::OptimisedOut)),
        ]);
        let base = json!({"frame": 0, "call": 0, "function": "score_of", "type": "int", "kind": "local",
            "encoding": "signed"});
        let own = |name: &str, more: Value| {
            let mut own = base.clone();
            own["name"] = json!(name);
            more.as_object().unwrap().iter().for_each(|(key, value)| own[key] = value.clone());
            own
        };
        let count = own(
            "count",
            json!({"bytes": "0700??fe", "source": "register", "evidence": {"register": "x0", "die": 144}}),
        );
        let pin = own("user_pin", json!({"unavailable": "scrubbed"}));
        let unknown = own("base", json!({"unavailable": "optimised_out"}));
        assert_eq!(written, json!([count, pin, unknown]));
        assert!(write_variables(&[]).is_none());
    }

    /// Proves: bounded-input
    #[test]
    fn names_and_lists_are_bounded() {
        let long = variable(&"é".repeat(5_000), Ok((vec![Some(1); 256], ValueSource::Stack)));
        let written = write(&vec![long; 256]);
        let written = written.as_array().unwrap();
        assert!(written.len() > 5 && written.len() < 256, "{}", written.len());
        assert!(written[0]["name"].as_str().unwrap().len() <= MOST_NAME_BYTES + "…".len());
    }
}
