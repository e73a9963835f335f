//! `unslide explain` of many reports.

use crate::offline::symbolicate::{report, run, written};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use unslide_testkit::fixtures;

/// A report with this id.
fn named(id: u32) -> Value {
    let mut report = report();
    report["report"]["id"] = format!("00000000-0000-0000-0000-{id:012}").into();
    report
}

/// A report with this id and a second thread.
fn with_second_thread(id: u32) -> Value {
    let mut report = named(id);
    let threads = report["crash"]["threads"].as_array_mut().unwrap();
    let mut second = threads[0].clone();
    second["index"] = 1.into();
    second["crashed"] = false.into();
    threads.push(second);
    report
}

/// The last digits of the reports that were explained, in the order of the output.
fn ids(output: &str) -> Vec<u32> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("report "));
    lines.map(|id| id.rsplit('-').next().unwrap().parse().unwrap()).collect()
}

fn piped(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    command.arg("explain").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn reports_of_files_of_every_form_are_explained_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let whole = written(&folder, "whole.json", serde_json::to_string_pretty(&named(1)).unwrap().as_bytes());
    let lines: String = (2..40).map(|id| format!("{}\n", named(id))).collect();
    let lines = written(&folder, "lines.ndjson", lines.as_bytes());
    fixtures::run(Command::new("gzip").arg(&lines));
    let packed = format!("{lines}.gz");
    let array = written(&folder, "array.json", format!("[{},{}]", named(40), named(41)).as_bytes());
    let (code, output, error) = run(&["explain", &whole, &packed, &array]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(ids(&output).into_iter().eq(1..42), "{output}");
    // One empty line is between two explanations, and nowhere else.
    assert!(output.starts_with("report ") && !output.ends_with("\n\n") && !output.contains("\n\n\n"));
    assert_eq!(output.matches("\n\nreport ").count(), 40);
    let (code, output, _) = run(&["explain", "--json", &whole, &packed, &array]);
    let explanations: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, explanations.len()), (Some(0), 41));
    assert!(explanations.iter().all(|explanation| explanation["backtraces"][0]["crashed"] == true));
}

#[test]
fn what_is_no_report_is_named_and_costs_the_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ips = "{\"app_name\":\"Shop\",\"bug_type\":\"309\"}";
    let lines = written(
        &folder,
        "lines.ndjson",
        format!("{}\noops\n\n{}\n[{ips},{},3]\n", named(1), named(2), named(3)).as_bytes(),
    );
    let array = written(&folder, "array.json", format!("[{ips},3,{}]", named(4)).as_bytes());
    let bad = written(&folder, "bad.json", b"{\n\"crash\":\n");
    let (code, output, error) = run(&["explain", &bad, &lines, &array]);
    assert_eq!((code, ids(&output)), (Some(1), vec![1, 2, 3, 4]), "{error}");
    assert!(output.starts_with("report "), "{output}");
    let problems: Vec<&str> = error.lines().collect();
    let expected = [
        "bad.json: ",
        "lines.ndjson: line 2: ",
        "lines.ndjson: line 5: element 1 of the array: ",
        "lines.ndjson: line 5: element 3 of the array: ",
        "array.json: line 1: element 1 of the array: ",
        "array.json: line 1: element 2 of the array: ",
    ];
    assert_eq!(problems.len(), expected.len(), "{error}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.contains(expected) && problem.ends_with("; not explained"), "{problem}");
    }
}

#[test]
fn reports_without_the_thread_are_named_and_the_others_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let reports = format!("{}\n{}\n{}\n", with_second_thread(1), named(2), with_second_thread(3));
    let file = written(&folder, "reports.ndjson", reports.as_bytes());
    let (code, output, error) = run(&["explain", "--thread", "1", "--frame", "0", &file]);
    assert_eq!((code, ids(&output)), (Some(3), vec![1, 2, 3]), "{error}");
    assert_eq!(output.matches("address in the report").count(), 2, "{output}");
    assert_eq!(error, "unslide: report 00000000-0000-0000-0000-000000000002 has no thread 1\n");
    let (code, _, error) = run(&["explain", "--frame", "9", &file]);
    assert_eq!((code, error.matches("has no frame 9").count()), (Some(3), 3), "{error}");
}

#[test]
fn a_pipe_is_explained_while_it_goes_on_and_a_reader_that_leaves_ends_it_quietly() {
    for arguments in [&[][..], &["-"]] {
        let mut child = piped(arguments);
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // The second report is not there before the first was explained.
        for id in 1..3 {
            input.write_all(format!("{}\n", named(id)).as_bytes()).unwrap();
            let mut read = vec![0; 1 << 16];
            let length = output.read(&mut read).unwrap();
            assert_eq!(ids(&String::from_utf8_lossy(&read[..length])), [id]);
        }
        drop(output);
        // The command stops to read once it cannot write.
        while input.write_all(format!("{}\n", named(3)).as_bytes()).is_ok() {}
        drop(input);
        let done = child.wait_with_output().unwrap();
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]));
    }
}

#[test]
fn an_id_is_explained_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "report.json", report().to_string().as_bytes());
    for arguments in [
        ["5f9e6c1c-0000-4000-8000-000000000001", &file],
        [&file, "5f9e6c1c-0000-4000-8000-000000000001"],
        ["5f9e6c1c-0000-4000-8000-000000000001", "5f9e6c1c-0000-4000-8000-000000000002"],
        ["-", "5f9e6c1c-0000-4000-8000-000000000001"],
    ] {
        let (code, output, error) = run(&[&["explain"], &arguments[..]].concat());
        assert_eq!((code, output.as_str()), (Some(2), ""), "{error}");
        assert!(
            error.contains(
                "5f9e6c1c-0000-4000-8000-000000000001 is not a file; give the id of a report at the API alone"
            ),
            "{error}"
        );
    }
    let (code, _, error) = run(&["explain", &file, "no/such/file.json"]);
    assert!(code == Some(2) && error.contains("no/such/file.json is neither a file nor"), "{error}");
    let (code, _, error) = run(&["explain", "--symbols", &file, "5f9e6c1c-0000-4000-8000-000000000001"]);
    assert!(code == Some(2) && error.contains("--symbols is for reports in files"), "{error}");
}

#[test]
fn a_fault_comes_first_in_an_explanation_and_is_part_of_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = named(1);
    report["crash"]["error"] = serde_json::json!({"type": "mach", "mach": {"exception": 1}});
    let registers = serde_json::json!({"basic": {"x0": 0}, "exception": {"esr": 0x9200_0046_u32, "far": 40}});
    report["crash"]["threads"][0]["registers"] = registers;
    let file = written(&folder, "null.json", report.to_string().as_bytes());
    let sentence = "A pointer is probably null: the crash writes address 0x28.";
    let (code, output, _) = run(&["explain", &file]);
    let second = output.lines().nth(1).unwrap();
    assert_eq!((code, second), (Some(0), format!("fault  {sentence}").as_str()), "{output}");
    let (_, output, _) = run(&["symbolicate", &file]);
    let answered: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(answered["symbolication"]["fault"]["sentence"], sentence);
    let (_, output, _) = run(&["symbolicate", "--format", "text", &file]);
    assert!(output.contains(&format!("\nAnalysis: {sentence}\n")), "{output}");
}
