//! What LLVM's own tools say of a file.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use unslide_testkit::fixtures::run;

/// One call as the symbolizer prints it; empty names and 0 where it knows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub function: String,
    pub file: String,
    pub line: u64,
    pub column: u64,
}

/// Feeds lines to a tool and returns its output.
pub fn pipe(command: &mut Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(|error| {
        panic!("{}: {error} (Debian: llvm-19)", command.get_program().display());
    });
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The chains at addresses of a file, innermost first.
pub fn symbolize(file: &Path, arch: &str, addresses: &BTreeSet<u64>) -> BTreeMap<u64, Vec<Frame>> {
    let input: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let mut command = Command::new("llvm-symbolizer-19");
    command.args(["--output-style=JSON", "--inlining", "--no-demangle", "--no-debuginfod"]);
    command.arg(format!("--default-arch={arch}")).arg("--obj").arg(file);
    let mut answers = BTreeMap::new();
    for line in pipe(&mut command, &input).lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let address = u64::from_str_radix(text(&answer, "Address").trim_start_matches("0x"), 16).unwrap();
        let frames = answer["Symbol"].as_array().map_or(Vec::new(), |symbols| {
            let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
            let frame = |symbol: &Value| Frame {
                function: text(symbol, "FunctionName"),
                file: text(symbol, "FileName"),
                line: number(symbol, "Line"),
                column: number(symbol, "Column"),
            };
            symbols.iter().map(frame).collect()
        });
        answers.insert(address, frames);
    }
    assert_eq!(answers.len(), addresses.len());
    answers
}

/// The addresses of a file's line tables, without the ends of sequences.
pub fn line_addresses(file: &Path, arch: &str) -> BTreeSet<u64> {
    let dump =
        run(Command::new("llvm-dwarfdump-19").arg("--debug-line").arg(format!("--arch={arch}")).arg(file));
    let rows = dump.lines().filter(|line| line.starts_with("0x") && !line.contains("end_sequence"));
    rows.filter_map(|line| u64::from_str_radix(line.get(2..18)?, 16).ok()).collect()
}

/// The addresses of the symbols of code in a file's symbol table.
pub fn symbol_addresses(file: &Path, arch: &str) -> BTreeSet<u64> {
    let list = run(Command::new("llvm-nm-19")
        .args(["--defined-only", "--no-demangle"])
        .arg(format!("--arch={arch}"))
        .arg(file));
    let mut found = BTreeSet::new();
    for line in list.lines() {
        if let [address, "t" | "T", _] = line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            found.insert(u64::from_str_radix(address, 16).unwrap());
        }
    }
    found
}

/// LLVM's reading of mangled names.
pub fn demangle(names: &[String]) -> Vec<String> {
    let mut command = Command::new("llvm-cxxfilt-19");
    command.arg("--no-strip-underscore");
    let out = pipe(&mut command, &(names.join("\n") + "\n"));
    out.lines().map(str::to_owned).collect()
}
