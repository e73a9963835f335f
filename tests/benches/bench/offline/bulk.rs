//! Many addresses at once: from a warm symcache to rows, beside reports with the same stacks and beside LLVM.

use crate::input::Input;
use crate::offline::core::spent;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;
use unslide_captures_formats::profile::Profile;
use unslide_model::RelativeAddress;
use unslide_proto::signal::{StackImage, StackNode, StackSet};
use unslide_proto::{Message, stacks};
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::bulk::{CountedAddress, look_up};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{Context, ImageSymbols, enrich, object};

/// The tool of LLVM, as Debian names it.
const LLVM: &str = "llvm-symbolizer-19";
/// Stacks that are sampled.
const SAMPLES: usize = 1_000;

/// Prints the addresses a second, and the ratios.
pub fn print(input: &Input, full: bool) {
    println!("\nMany addresses at once, on one core");
    let symbols = ImageSymbols::from_symcache(input.symcache.clone());
    let (most, rounds) = if full { (10_000_000, 5) } else { (10_000, 1) };
    for addresses in [addresses(&input.symcache, most), one_in_each_range(&input.symcache, most)] {
        let mut chains = 0;
        let times = (0..rounds).map(|_| {
            let sorted = addresses.clone();
            let images = [Some(input.debug_id)];
            spent(|| chains = black_box(look_up(&images, sorted, &|_| Some(&symbols))).chains.len())
        });
        let time = times.min().unwrap_or_default();
        println!(
            "  {} distinct sorted addresses with {chains} different answers: {:.1} million addresses a second",
            addresses.len(),
            addresses.len() as f64 / time.as_secs_f64() / 1e6
        );
    }
    beside_reports(input, &symbols, if full { 200 } else { 2 });
    beside_llvm(input, &symbols, if full { 50_000 } else { 200 });
}

/// Evenly spread addresses of an image's code.
fn addresses(symcache: &SymCache, most: usize) -> Vec<CountedAddress> {
    let end = symcache.ranges().last().map_or(1, |(start, _)| start.0).max(1);
    let step = usize::try_from(end).unwrap_or(usize::MAX).div_ceil(most).max(1);
    let spread = (0..end).step_by(step);
    spread.map(|at| CountedAddress { image: 0, address: RelativeAddress(at), count: 1 }).collect()
}

/// An address in each range of an image: no two have one answer.
fn one_in_each_range(symcache: &SymCache, most: usize) -> Vec<CountedAddress> {
    let starts = symcache.ranges().take(most).map(|(start, _)| start);
    starts.map(|address| CountedAddress { image: 0, address, count: 1 }).collect()
}

/// The least CPU time of several rounds.
fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    (0..rounds).map(|_| spent(&mut work)).min().unwrap_or_default()
}

/// Samples of the stacks of a report: as reports that are read and symbolicated, and as one set that is read and made into
/// a tree.
fn beside_reports(input: &Input, symbols: &ImageSymbols, rounds: usize) {
    let report = input.report(0);
    let set = stack_set(input);
    let bytes = set.encode_to_vec();
    let limits = ReadLimits::default();
    let find = |id: &_| (*id == input.debug_id).then_some(symbols);
    let reports = SAMPLES / input.stacks.len();
    let one = best(rounds, || {
        let report = Report::read(&report, &limits).expect("a report");
        drop(black_box(enrich(&report, &find, &Context::default())));
    });
    let as_reports = one * u32::try_from(reports).unwrap_or(u32::MAX);
    let as_set = best(rounds, || {
        let set = stacks::read_stack_set(&bytes).expect("a set of stacks");
        drop(black_box(Profile::from(&set).symbolicate(&find)));
    });
    println!("  {SAMPLES} samples of the stacks of a report:");
    println!("    {as_reports:.1?} as {reports} reports with {} bytes each", report.len());
    println!(
        "    {as_set:.1?} as a set of {} nodes with {} bytes: {:.0} times less",
        set.nodes.len(),
        bytes.len(),
        as_reports.as_secs_f64() / as_set.as_secs_f64()
    );
}

/// Samples of the stacks of a report as a prefix tree; their innermost frames are there or not.
fn stack_set(input: &Input) -> StackSet {
    let image = StackImage { debug_id: input.debug_id.0.to_vec().into(), name: "Shop".to_owned() };
    let mut set = StackSet { images: vec![image], nodes: Vec::new() };
    let mut known = HashMap::new();
    for sample in 0..SAMPLES {
        let stack = &input.stacks[sample % input.stacks.len()];
        let innermost = sample / input.stacks.len() % (stack.len() / 2);
        let mut parent = 0;
        for address in stack[innermost..].iter().rev() {
            parent = *known.entry((parent, *address)).or_insert_with(|| {
                set.nodes.push(StackNode { parent, image: 1, address: *address, ..StackNode::default() });
                u32::try_from(set.nodes.len()).unwrap_or(u32::MAX)
            });
        }
        if let Some(leaf) = (parent as usize).checked_sub(1).and_then(|leaf| set.nodes.get_mut(leaf)) {
            leaf.count += 1;
        }
    }
    set
}

/// The same addresses asked of LLVM: with its start and reading of the dSYM, against ours with building the symcache;
/// and asked once more of the same process, against a symcache that is there.
fn beside_llvm(input: &Input, symbols: &ImageSymbols, count: usize) {
    if Command::new(LLVM).arg("--version").output().is_err() {
        println!("  {LLVM} is not installed: no comparison with it");
        return;
    }
    let addresses = addresses(&input.symcache, count);
    let lines: String = addresses
        .iter()
        .map(|at| format!("{:#x}\n", input.symcache.text_address().0 + at.address.0))
        .collect();
    let once = ask_llvm(input, &lines);
    let twice = ask_llvm(input, &lines.repeat(2));
    let find = |symbols: &ImageSymbols| {
        drop(black_box(look_up(&[Some(input.debug_id)], addresses.clone(), &|_| Some(symbols))));
    };
    let cold = spent(|| {
        let built = object::build_symcache(&input.dsym).expect("a sound object");
        find(&ImageSymbols::from_symcache(SymCache::parse(built.symcache).expect("a symcache").into()));
    });
    let warm = best(5, || find(symbols));
    let times = |theirs: Duration, ours: Duration| theirs.as_secs_f64() / ours.as_secs_f64();
    let again = twice.saturating_sub(once);
    println!("  {} addresses beside {LLVM}:", addresses.len());
    println!(
        "    cold {once:.2?}, ours with the symcache to build {cold:.2?}: {:.1} times",
        times(once, cold)
    );
    println!("    warm {again:.2?}, ours {warm:.2?}: {:.0} times", times(again, warm));
}

/// The CPU time of a process of LLVM's that answers these lines.
fn ask_llvm(input: &Input, lines: &str) -> Duration {
    let before = of_children();
    let mut child = Command::new(LLVM)
        .args(["--no-debuginfod", "--obj"])
        .arg(&input.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it has said its version");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("it reads all");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    of_children().saturating_sub(before)
}

/// CPU time of the processes that have ended.
fn of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a figure that Linux has");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0)))
        .sum()
}
