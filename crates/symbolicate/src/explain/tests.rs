use super::*;
use crate::grouping::{GroupKind, GroupingVerdict};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn the_schema_has_every_word_of_an_explanation() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/schema/explanation-v1.json")).unwrap();
    let words = |pointer: &str| -> BTreeSet<String> {
        let list = schema.pointer(pointer).and_then(Value::as_array).unwrap();
        list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    let kinds = GroupKind::ALL.map(GroupKind::as_str);
    assert_eq!(words("/$defs/grouping/properties/kind/enum"), all(&kinds));
    let verdicts = GroupingVerdict::ALL.map(GroupingVerdict::as_str);
    assert_eq!(words("/$defs/grouped/properties/verdict/enum"), all(&verdicts));
    let origins = [
        BacktraceOrigin::Thread,
        BacktraceOrigin::CrashedThread,
        BacktraceOrigin::LastException,
        BacktraceOrigin::DeallocatedException,
        BacktraceOrigin::Profile,
        BacktraceOrigin::BlockedThread,
        BacktraceOrigin::AllocationStack,
        BacktraceOrigin::CallStackTree,
    ];
    assert_eq!(words("/$defs/backtrace/properties/origin/enum"), all(&origins.map(origin_name)));
}
