//! Removal of members of our object from a report.

use crate::Report;
use crate::json::Value;
use std::ops::Range;

impl Report<'_> {
    /// Returns the ranges of the members of our object in the report object that have one of these names, with their
    /// commas, in order. Empty for a report that was not enriched.
    #[must_use]
    pub fn find_own_members(&self, names: &[&str]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let Some(own) = self.own_member.as_ref().filter(|_| self.ours.is_some()) else { return found };
        let open = self.input.get(own.clone()).and_then(|own| memchr::memchr(b'{', own));
        let Some(open) = open.map(|open| own.start + open) else { return found };
        let passed = Value::from_offset(self.input, open).scanner().read_members(|s, member| {
            s.skip_value()?;
            if names.iter().any(|name| member.has_key(name)) {
                found.push(member.separator..s.pos());
            }
            Ok(())
        });
        if passed.is_ok() { found } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use crate::Report;

    #[test]
    fn members_of_our_object_are_found_with_their_commas() {
        let json = br#"{"variables":[1],"crash":{"threads":[]},"symbolication":{"version":1,"engine":"unslide/0.1.0","fault":{"a":{"variables":2}},"variables":[{"name":"p"}],"status":"x"}}"#;
        let report = Report::read_stored(json).unwrap();
        let found = report.find_own_members(&["variables", "none"]);
        let texts: Vec<&[u8]> = found.iter().map(|range| &json[range.clone()]).collect();
        assert_eq!(texts, [br#","variables":[{"name":"p"}]"#]);
        let plain = br#"{"variables":[1],"crash":{"threads":[]}}"#;
        assert!(Report::read_stored(plain).unwrap().find_own_members(&["variables"]).is_empty());
    }
}
