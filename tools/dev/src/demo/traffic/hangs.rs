//! Hangs: the work of the main thread while it did not answer. The broken release spends more of the time in
//! the cart.

use super::builds::Build;
use super::swift::Framework;
use super::{BoxError, backtraces};
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use std::ops::Range;

/// Nanoseconds from one sample to the next.
const INTERVAL: u64 = 10_000_000;
const SAMPLES: Range<u64> = 30..260;
/// Calls of the recursion in a sample.
const CALLS: usize = 6;
/// The frame of the demo's stack that pays. It calls the cart and the framework, and the queue has called it.
const PAYMENT: usize = 3;

/// Adds samples of the main thread to a report. It adds up the cart, adds points to the account, looks for
/// the tier, and waits for the queue.
pub fn sample(report: &mut Value, build: &Build, random: &mut SmallRng) -> Result<(), BoxError> {
    let framework = Framework::load(report)?;
    let cart: Vec<Value> = backtraces(report).flat_map(|frames| frames.iter().cloned()).collect();
    let with_callers = |called: Vec<Value>| [called.as_slice(), &cart[PAYMENT..]].concat();
    let mut frames = Vec::new();
    let stacks = [
        in_profile(&mut frames, &cart),
        in_profile(&mut frames, &with_callers(framework.sum())),
        in_profile(&mut frames, &with_callers(framework.recursion(CALLS))),
        in_profile(&mut frames, &cart[PAYMENT + 1..]),
    ];
    // The ends of the first three, in percent of the time. The cart has most of it in each version, so that
    // the hangs are one group.
    let ends = if build.version == "2.5.0" { [80, 85, 95] } else { [55, 70, 90] };
    let number = random.random_range(SAMPLES);
    let samples = (0..number).map(|at| {
        let stack = &stacks[ends.iter().filter(|end| at * 100 / number >= **end).count()];
        let begin = at * INTERVAL;
        json!({"time_start_uptime": begin, "time_end_uptime": begin + 40_000, "duration": 40_000, "frames": stack})
    });
    let samples: Vec<Value> = samples.collect();
    let nanos = number * INTERVAL;
    report["crash"]["error"]["hang"] =
        json!({"hang_start_nanos": 0, "hang_end_nanos": nanos, "hang_recovered": true});
    report["crash"]["error"]["profile"] = json!({"name": "hang", "time_units": "nanoseconds", "duration": nanos,
        "expected_sample_interval": INTERVAL, "frames": frames, "samples": samples});
    Ok(())
}

/// Returns the places of a stack's frames among those of the profile, which has each once. Its return
/// addresses were decremented by the device.
fn in_profile(frames: &mut Vec<Value>, stack: &[Value]) -> Vec<usize> {
    let place = |(depth, frame): (usize, &Value)| {
        let mut frame = frame.clone();
        let address = frame["instruction_addr"].as_u64().unwrap_or_default();
        frame["instruction_addr"] = json!(address - u64::from(depth > 0));
        frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
            frames.push(frame);
            frames.len() - 1
        })
    };
    stack.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::super::builds::{BUILDS, PROGRAM};
    use super::super::tests::symbols_from_archive;
    use super::super::{HANG, report, swift};
    use super::*;
    use crate::demo::DSYM;
    use rand::SeedableRng;
    use std::collections::{BTreeMap, HashMap};
    use unslide_calltree::report_tree;
    use unslide_model::DebugId;
    use unslide_report::{ReadLimits, Report};
    use unslide_symbolicate::{Context, ImageSymbols, Plan};

    /// The group's title and fingerprint of a hang of a build, and the samples in percent that end in each function.
    fn hang(
        build: &'static Build,
        symbols: &HashMap<DebugId, ImageSymbols>,
    ) -> (String, [u8; 16], BTreeMap<String, u64>) {
        let mut random = SmallRng::seed_from_u64(7);
        let sent = report(build, HANG, 1, 1_800_000_000_000, &mut random).unwrap();
        // All builds have the code of one dSYM.
        let body = String::from_utf8(sent.body).unwrap().replace(build.uuid, PROGRAM.uuid);
        let read = Report::read(body.as_bytes(), &ReadLimits::default()).unwrap();
        let plan = Plan::new(&read);
        let enriched = plan.enrich_within(&|id| symbols.get(id), &Context::default());
        let stored = Report::read_stored(&enriched.bytes).unwrap();
        let tree = report_tree(&stored, &stored.build_profile().unwrap()).tree;
        let all = tree.total().weight;
        let ended = tree.list_functions(usize::MAX).into_iter().filter(|function| function.own > 0);
        let shares =
            ended.map(|function| (function.frame.name.to_string(), function.own * 100 / all)).collect();
        let grouping = enriched.grouping.unwrap();
        (grouping.title, grouping.fingerprint, shares)
    }

    #[test]
    fn a_hang_has_several_paths_and_the_broken_release_has_the_same_bug_with_other_shares() {
        let symbols = HashMap::from([DSYM, swift::DSYM].map(symbols_from_archive));
        let (title, group, before) = hang(&BUILDS[1], &symbols);
        let (_, broken_group, broken) = hang(&BUILDS[2], &symbols);
        assert_eq!((title.as_str(), group), ("Hang in cafe::Discount::of", broken_group));
        let functions = [
            "Loyalty.Account.add(Swift.Int) -> ()",
            "Loyalty.Tier.next(Swift.Int) -> ()",
            "cafe::Discount::of(cafe::Money) const",
            "libdispatch.dylib + 0x40d8",
        ];
        assert_eq!(before.keys().collect::<Vec<_>>(), functions);
        assert_eq!(broken.keys().collect::<Vec<_>>(), functions);
        let in_cart = |shares: &BTreeMap<String, u64>| shares[functions[2]];
        assert!(in_cart(&broken) >= in_cart(&before) + 20, "{before:?} {broken:?}");
    }
}
