//! Planned crashes of small C, C++ and Objective-C programs that ran in an emulator until they faulted. `lab.ndjson` has
//! one crash a line: the plan, and the members of its report that the rules read.

use crate::fault_analysis::fault;
use serde_json::Value;

const LAB: &str = include_str!("../data/lab.ndjson");

/// Returns the verdicts that are right for a planned crash while its variables are not known.
fn right_verdicts(planned: &str) -> &[&str] {
    match planned {
        // They need the value of the bad pointer.
        "freed_memory" => &["freed_memory", "invalid_pointer"],
        "bit_flip" | "pointer_authentication" => &["invalid_pointer"],
        "small_address" => &["null_pointer"],
        // The offset of one member is beyond the reach of null.
        "null_pointer" => &["null_pointer", "unknown"],
        "abort" => &["abort"],
        "trap" => &["trap"],
        "execute_data" => &["execute_data"],
        "invalid_pointer" => &["invalid_pointer"],
        "misaligned" => &["misaligned"],
        "null_call" => &["null_call"],
        "stack_overflow" => &["stack_overflow"],
        "write_to_read_only" => &["write_to_read_only"],
        other => panic!("the lab has no verdict {other}"),
    }
}

#[test]
fn planned_crashes_have_their_verdicts_and_accesses() {
    let mut unknown = 0;
    let cases: Vec<Value> = LAB.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() > 70, "{}", cases.len());
    for case in &cases {
        let found = fault(case["report"].to_string().as_bytes());
        let verdict = found["verdict"].as_str().unwrap();
        let planned = case["verdict"].as_str().unwrap();
        assert!(right_verdicts(planned).contains(&verdict), "{}: {found}", case["case"]);
        unknown += usize::from(verdict == "unknown");
        // After a general protection fault neither is known.
        let is_lost = found["abstained"][0]["what"] == "access";
        if !is_lost {
            assert_eq!(found["access"]["kind"], case["access"], "{}", case["case"]);
            assert_eq!(found["access"]["address"], case["address"], "{}", case["case"]);
        }
        let is_likely = found["confidence"] == "likely";
        assert_eq!(found["sentence"].as_str().unwrap().contains("probably"), is_likely, "{found}");
        assert!(!found["evidence"].as_array().unwrap().is_empty(), "{found}");
    }
    assert!(unknown <= 2, "{unknown} crashes have no verdict");
}

#[test]
fn a_freed_receiver_is_found_and_its_class_is_not_named() {
    let zombie = LAB.lines().find(|line| line.contains("zombie_message")).unwrap();
    let case: Value = serde_json::from_str(zombie).unwrap();
    let found = fault(case["report"].to_string().as_bytes());
    assert_eq!((&found["verdict"], &found["confidence"]), (&"freed_memory".into(), &"certain".into()));
    assert!(zombie.contains("LABCart") && !found.to_string().contains("LABCart"), "{found}");
}
