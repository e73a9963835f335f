//! What a symcache takes to build: CPU and memory, beside symbolic's converter. Each is built in a process of its own, from
//! a file that is mapped into memory, as a builder's child process does.

use crate::offline::core::spent;
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use symbolic_debuginfo::Archive;
use symbolic_symcache::SymCacheConverter;
use unslide_archive::map_file;
use unslide_testkit::memory;

/// Names the dSYM of some 2 GB.
const HUGE: &str = "UNSLIDE_BENCH_HUGE_DSYM";
/// The most memory that a build may take for each byte of DWARF.
const MOST_MEMORY: f64 = 1.5;

/// Who builds.
#[derive(Clone, Copy)]
enum Converter {
    Ours,
    Symbolic,
}

impl Converter {
    fn name(self) -> &'static str {
        match self {
            Converter::Ours => "unslide",
            Converter::Symbolic => "symbolic",
        }
    }
}

/// What a build took.
#[derive(Clone, Copy)]
struct BuildCost {
    cpu: Duration,
    /// The most bytes that were allocated at a time.
    heap: u64,
    /// The most bytes that were resident: with the pages of the file and of the program.
    resident: u64,
    /// The size of the symcache.
    symcache: u64,
}

/// Prints what the builds of a dSYM take, and with `full` those of the one that [`HUGE`] names.
pub fn print(path: &Path, full: bool) {
    println!("\nSymcaches, each built in a process of its own from a mapped file");
    compare(path, if full { 5 } else { 1 });
    match std::env::var_os(HUGE).map(PathBuf::from).filter(|_| full) {
        Some(path) => compare(&path, 1),
        None => println!("  the dSYM of 2 GB is built by `scripts/bench builds` alone"),
    }
}

fn compare(path: &Path, rounds: usize) {
    let dwarf = dwarf_bytes(path);
    println!("  {} MB of DWARF:", dwarf >> 20);
    let mut costs = [Converter::Ours, Converter::Symbolic].map(|converter| (converter, Vec::new()));
    for _ in 0..rounds {
        for (converter, costs) in &mut costs {
            costs.push(build_apart(*converter, path));
        }
    }
    let [ours, symbolic] = costs.map(|(converter, costs)| {
        let best = costs.into_iter().min_by_key(|cost| cost.cpu).expect("there is a round");
        println!(
            "    {:<8} {:>8.2?} of CPU, {:>5} MB allocated at most, {:>5} MB resident with the file, {} MB of symcache",
            converter.name(),
            best.cpu,
            best.heap >> 20,
            best.resident >> 20,
            best.symcache >> 20
        );
        best
    });
    let per_byte = ours.resident as f64 / dwarf.max(1) as f64;
    println!(
        "    {:.2}x the CPU of symbolic, {:.2}x what it allocates; {per_byte:.2} bytes resident a byte of DWARF{}",
        ours.cpu.as_secs_f64() / symbolic.cpu.as_secs_f64(),
        ours.heap as f64 / symbolic.heap.max(1) as f64,
        if per_byte > MOST_MEMORY { ": more than it may be for a large one" } else { "" }
    );
    assert!(
        per_byte <= MOST_MEMORY || dwarf < 1 << 30,
        "at most {MOST_MEMORY} bytes resident a byte of DWARF"
    );
}

fn dwarf_bytes(path: &Path) -> u64 {
    let bytes = map_file(path).expect("the dSYM can be mapped");
    let file = object::File::parse(&*bytes).expect("a Mach-O file");
    let is_dwarf =
        |section: &object::Section<'_, '_>| section.segment_name().ok().flatten() == Some("__DWARF");
    file.sections().filter(is_dwarf).map(|section| section.size()).sum()
}

fn build_apart(converter: Converter, path: &Path) -> BuildCost {
    let program = std::env::current_exe().expect("a program knows its own file");
    let mut child = Command::new(program);
    let child = child.arg(format!("--build-with={}", converter.name())).arg(path).stderr(Stdio::inherit());
    let output = child.output().expect("it can be started");
    assert!(output.status.success(), "{}: {}", path.display(), output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [micros, heap, resident, symcache] = numbers[..] else { panic!("four numbers and not {text:?}") };
    BuildCost { cpu: Duration::from_micros(micros), heap, resident, symcache }
}

/// Builds a symcache and prints what it took, where the arguments ask for it; true where they do.
pub fn is_child(arguments: &[String]) -> bool {
    let [converter, path] = arguments else { return false };
    let build = match converter.strip_prefix("--build-with=") {
        Some("unslide") => build_ours,
        Some("symbolic") => build_symbolic,
        _ => return false,
    };
    let mut built = (0, 0);
    let cpu = spent(|| built = memory::peak(|| build(Path::new(path))));
    let (symcache, heap) = built;
    println!("{} {heap} {} {symcache}", cpu.as_micros(), peak_resident());
    true
}

fn build_ours(path: &Path) -> usize {
    let bytes = map_file(path).expect("the dSYM can be mapped");
    unslide_symbolicate::object::build_symcache(&bytes).expect("a sound object").symcache.len()
}

fn build_symbolic(path: &Path) -> usize {
    let bytes = map_file(path).expect("the dSYM can be mapped");
    let archive = Archive::parse(&bytes).expect("a Mach-O file");
    let object = archive.object_by_index(0).expect("a sound object").expect("an object");
    let mut converter = SymCacheConverter::new();
    converter.process_object(&object).expect("a sound object");
    let mut symcache = Vec::new();
    converter.serialize(&mut symcache).expect("memory");
    symcache.len()
}

fn peak_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}
