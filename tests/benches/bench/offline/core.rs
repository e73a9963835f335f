//! What one report costs without any server, in CPU time of one thread.

use crate::input::Input;
use crate::ratios::Ratios;
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use unslide_fault_analysis::VARIABLES_TABLE;
use unslide_model::{RelativeAddress, TenantId};
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::object;
use unslide_symbolicate::{Context, ImageSymbols, enrich};

/// CPU time of this thread so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock that Linux has");
    Duration::new(u64::try_from(time.tv_sec()).unwrap_or(0), u32::try_from(time.tv_nsec()).unwrap_or(0))
}

/// CPU time of this thread for a piece of work.
pub fn spent(work: impl FnOnce()) -> Duration {
    let start = cpu();
    work();
    cpu() - start
}

/// The median of each of several pieces of work, measured in turns so that a disturbance meets all.
fn medians<const N: usize>(rounds: usize, mut work: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (work, times) in work.iter_mut().zip(&mut times) {
            times.push(spent(&mut **work));
        }
    }
    times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

/// Microseconds of CPU that a piece of work costs.
pub fn median_micros(mut work: impl FnMut()) -> f64 {
    let [one] = medians(100, [&mut work]);
    one.as_secs_f64() * 1e6
}

/// Milliseconds of CPU that one report costs without any server, warm.
pub fn core_time(input: &Input) -> f64 {
    let report = input.report(0);
    median_micros(|| drop(black_box(answer(input, &report)))) / 1_000.0
}

/// Reads a report, looks its frames up and writes it.
pub fn answer(input: &Input, bytes: &[u8]) -> Vec<u8> {
    let tenant = TenantId::new("acme").expect("a slug");
    let context = Context { tenant: Some(&tenant), revision: Some(1), ..Context::default() };
    let symbols = ImageSymbols::from_symcache(Arc::clone(&input.symcache));
    let report = Report::read(bytes, &ReadLimits::default()).expect("a report");
    enrich(&report, &|id| (*id == input.debug_id).then_some(&symbols), &context).bytes
}

/// Prints the costs of the parts of a report, of a symcache, and of look-ups, and notes the ratios.
pub fn print(input: &Input, full: bool, ratios: &mut Ratios) {
    let rounds = if full { 400 } else { 3 };
    let report = input.report(0);
    let limits = ReadLimits::default();
    let output = answer(input, &report);
    println!(
        "A report: {} frames, {} images, {} bytes in, {} bytes out",
        input.frames,
        input.images + 1,
        report.len(),
        output.len()
    );
    println!("  its dSYM has {} bytes; {:.2} calls a frame on average", input.dsym.len(), input.depth);
    let unlike = input.unlike_reports();
    let mut next = unlike.iter().cycle();
    let [sonic, serde, read, whole, unseen] = medians(
        rounds,
        [
            &mut || drop(black_box(sonic_rs::from_slice::<sonic_rs::Value>(&report).expect("JSON"))),
            &mut || drop(black_box(serde_json::from_slice::<serde_json::Value>(&report).expect("JSON"))),
            &mut || drop(black_box(Report::read(&report, &limits).expect("a report"))),
            &mut || drop(black_box(answer(input, &report))),
            &mut || drop(black_box(next.next().map(|report| answer(input, report)))),
        ],
    );
    println!("CPU time of one thread, median of {rounds} rounds in turns");
    println!("  sonic-rs parses it into a DOM         {sonic:>10.1?}");
    println!("  serde_json parses it into a DOM       {serde:>10.1?}");
    println!(
        "  read for symbolication                {read:>10.1?}   {:.2}x the fastest DOM",
        ratio(read, sonic)
    );
    println!(
        "  read, looked up, written (warm)       {whole:>10.1?}   {:.2}x the fastest DOM",
        ratio(whole, sonic)
    );
    println!(
        "  the same of stacks not seen before    {unseen:>10.1?}   {:.2}x the fastest DOM",
        ratio(unseen, sonic)
    );

    ratios.note("read", ratio(read, sonic));
    ratios.note("symbolicated", ratio(whole, sonic));
    ratios.note("symbolicated, of unseen stacks", ratio(unseen, sonic));
    let built = spent(|| drop(black_box(object::build_symcache(&input.dsym))));
    let size = input.symcache.bytes().len();
    println!(
        "\nA symcache: built in {built:.2?} of CPU, {size} bytes, {:.1} % of the dSYM",
        100.0 * size as f64 / input.dsym.len() as f64
    );
    let mut table = None;
    let derived = spent(|| table = (VARIABLES_TABLE.derive)(&input.dsym).expect("a table of variables"));
    let table = table.map_or(0, |table| table.len());
    println!(
        "  its table of variables: built in {derived:.2?} of CPU, {:.2}x of the symcache; {table} bytes, {:.1} % of it",
        ratio(derived, built),
        100.0 * table as f64 / size as f64
    );
    println!("  {:.0} look-ups/s on one core, every text of every call copied", lookups(input, full));
}

fn lookups(input: &Input, full: bool) -> f64 {
    let starts: Vec<u64> =
        input.symcache.ranges().filter(|(_, a)| a.is_some()).map(|(start, _)| start.0).collect();
    let count = if full { 1_000_000 } else { 1_000 };
    let mut out = Vec::with_capacity(1 << 16);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let time = spent(|| {
        for _ in 0..count {
            // A multiplicative generator: which address comes next must not be predictable.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let address = starts[usize::try_from(random >> 33).unwrap_or(0) % starts.len()];
            let Some(answer) = input.symcache.lookup(RelativeAddress(address)).into_answer() else {
                continue;
            };
            out.clear();
            for call in answer.calls() {
                out.extend_from_slice(call.function.raw());
                out.extend_from_slice(call.raw.map_or(&[], |raw| raw.raw()));
                out.extend_from_slice(call.file.map_or(&[], |file| file.raw()));
            }
            black_box(&out);
        }
    });
    f64::from(count) / time.as_secs_f64()
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
