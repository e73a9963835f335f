//! The event that a log with sampled stacks is about.

use super::header::TreeHeader;

/// A kind of event that ends in sampled stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledEvent {
    Hang,
    Cpu,
    DiskWrites,
}

impl SampledEvent {
    /// Finds the event: the text names it, or its limits show it, or the type above the text says so.
    pub fn from_header(header: &TreeHeader) -> Option<SampledEvent> {
        let named = header.find_field("Event").unwrap_or_default().to_ascii_lowercase();
        let has = |key: &str| header.find_field(key).is_some();
        match () {
            () if named.contains("hang") || named.contains("spin") => return Some(SampledEvent::Hang),
            () if named.contains("cpu") || named.contains("wakeups") => return Some(SampledEvent::Cpu),
            () if named.contains("disk") || named.contains("write") => return Some(SampledEvent::DiskWrites),
            () if has("Writes") || has("Writes limit") => return Some(SampledEvent::DiskWrites),
            () if has("CPU used") || has("CPU") || has("Wakeups") => return Some(SampledEvent::Cpu),
            () => {}
        }
        match header.json_member("bug_type")?.as_str() {
            "222" | "223" | "228" | "328" => Some(SampledEvent::Hang),
            "202" | "206" | "142" => Some(SampledEvent::Cpu),
            "145" => Some(SampledEvent::DiskWrites),
            _ => None,
        }
    }

    /// Returns the name for people.
    pub fn display_name(self) -> &'static str {
        match self {
            SampledEvent::Hang => "a hang",
            SampledEvent::Cpu => "CPU use",
            SampledEvent::DiskWrites => "disk writes",
        }
    }

    /// Returns MetricKit's list of such events.
    pub fn list_key(self) -> &'static str {
        match self {
            SampledEvent::Hang => "hangDiagnostics",
            SampledEvent::Cpu => "cpuExceptionDiagnostics",
            SampledEvent::DiskWrites => "diskWriteExceptionDiagnostics",
        }
    }

    /// Returns MetricKit's name of the measured value.
    pub fn measure_key(self) -> &'static str {
        match self {
            SampledEvent::Hang => "hangDuration",
            SampledEvent::Cpu => "totalCPUTime",
            SampledEvent::DiskWrites => "writesCaused",
        }
    }

    /// Returns the measured value with its unit.
    pub fn read_measurement(self, header: &TreeHeader) -> Option<String> {
        let keys: &[&str] = match self {
            SampledEvent::Hang => &["Duration", "Duration Sampled", "Hang duration"],
            SampledEvent::Cpu => &["CPU used", "CPU", "Wakeups"],
            SampledEvent::DiskWrites => &["Writes", "Writes caused"],
        };
        keys.iter().find_map(|key| first_quantity(header.find_field(key)?))
    }
}

/// Returns the number at the beginning of a text, with its unit: `2.50s`, or `48 seconds cpu time over 59 seconds`.
fn first_quantity(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',')).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let unit = rest.split_whitespace().next().unwrap_or_default();
    let is_quantity = number.bytes().any(|byte| byte.is_ascii_digit()) && !unit.is_empty();
    let unit = match unit {
        "seconds" | "second" => "s",
        unit => unit,
    };
    is_quantity.then(|| format!("{number} {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_decides_before_the_type() {
        let find = |json: &str, text: &str| {
            SampledEvent::from_header(&TreeHeader::from_parts(json.as_bytes(), text))
        };
        assert_eq!(find("{\"bug_type\":\"202\"}", "Event: hang\n"), Some(SampledEvent::Hang));
        assert_eq!(find("", "Event:   disk writes\n"), Some(SampledEvent::DiskWrites));
        assert_eq!(find("", "Writes:  1073.76 MB of file backed memory\n"), Some(SampledEvent::DiskWrites));
        assert_eq!(find("{\"bug_type\":202}", ""), Some(SampledEvent::Cpu));
        assert_eq!(find("{\"bug_type\":\"228\"}", ""), Some(SampledEvent::Hang));
        assert_eq!(find("", "Duration: 2 s\n"), None);
    }

    #[test]
    fn measurements_keep_their_units() {
        for (text, expected) in [
            ("2.50s", Some("2.50 s")),
            ("48 seconds cpu time over 59 seconds (81% cpu average)", Some("48 s")),
            ("1073.76 MB of file backed memory dirtied", Some("1073.76 MB")),
            ("unknown", None),
            ("12", None),
        ] {
            assert_eq!(first_quantity(text).as_deref(), expected, "{text}");
        }
    }
}
