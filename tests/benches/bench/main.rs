//! The figures: what a report costs, and how many go through real Kafka. Everything that is compared
//! is measured in one run and printed as a ratio. `make bench` runs it optimised; without `--full`
//! it only shows that it works, with small numbers that mean nothing. Names of parts choose among them.

#![expect(clippy::print_stdout, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod input;
mod offline;
mod online;
mod ratios;
mod start;

use unslide_testkit::memory::Counting;

/// The parts that run without being named, as a test runner lists them: each is a test with small numbers.
const PARTS: &[&str] = &[
    "grouping",
    "malloc",
    "memory-graph",
    "metrics",
    "core",
    "bulk",
    "builds",
    "flow",
    "latency",
    "http",
    "symbolicator",
    "guarantee",
    "fairness",
    "shares",
    "scaling",
    "store",
    "unpacking",
    "late",
    "scale",
    "queries",
    "history",
    "start",
];

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if offline::builds::is_child(&arguments) {
        return;
    }
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has_flag("--list") {
        // No part is ignored.
        for part in PARTS.iter().filter(|_| !has_flag("--ignored")) {
            println!("{part}: test");
        }
        return;
    }
    let full = has_flag("--full");
    let parts: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |part: &str| {
        if parts.is_empty() { PARTS.contains(&part) } else { parts.iter().any(|name| *name == part) }
    };
    if wanted("grouping") {
        offline::grouping::print(full);
    }
    if wanted("malloc") {
        offline::malloc::print(full);
    }
    if wanted("memory-graph") {
        offline::memory_graph::print(full);
    }
    if wanted("metrics") {
        offline::metrics::print(full);
    }
    let input = input::Input::prepare();
    let mut ratios = ratios::Ratios::read();
    if wanted("core") {
        offline::core::print(&input, full, &mut ratios);
    }
    if wanted("bulk") {
        offline::bulk::print(&input, full);
    }
    if wanted("builds") {
        offline::builds::print(&input.path, full);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if wanted("flow") {
            online::flow::print(&input, full).await;
        }
        if wanted("latency") {
            // A large symcache takes longer than its time limit if each piece of it is delayed.
            online::latency::print(&input::Input::prepare_small(), full).await;
        }
        if wanted("http") {
            online::http::print(&input, full).await;
        }
        if wanted("symbolicator") {
            online::http::symbolicator::print(&input, full).await;
        }
        if wanted("guarantee") {
            online::guarantee::print(&input.report(0), full).await;
        }
        if wanted("fairness") {
            online::fairness::print(&input, full).await;
        }
        if wanted("shares") {
            online::shares::print(&input, full).await;
        }
        if wanted("scaling") {
            online::scaling::print(&input, full).await;
        }
        if wanted("outages") {
            online::outages::print(&input, full).await;
        }
        if wanted("cells") {
            online::cells::print(full).await;
        }
        if wanted("store") {
            online::store::print(&input, full).await;
        }
        if wanted("unpacking") {
            online::unpacking::print(full).await;
        }
        if wanted("late") {
            online::late::print(full).await;
        }
        if wanted("scale") {
            online::scale::print(full).await;
        }
        if wanted("queries") {
            online::queries::print(full).await;
        }
        // With ten million rows it takes longer than all others.
        if wanted("history") && (!full || !parts.is_empty()) {
            online::history::print(full).await;
        }
    });
    if wanted("start") {
        start::print(full);
    }
    // Small numbers mean nothing.
    if full && wanted("core") {
        // Printed last, where it is seen.
        if has_flag("--update") {
            ratios.write().expect("the file of ratios can be written");
        } else if !ratios.compare() {
            std::process::exit(1);
        }
    }
}
