//! The figures: what a report costs, and how many go through real Kafka. Everything that is compared
//! is measured in one run and printed as a ratio. `make bench` runs it optimised; without `--full`
//! it only shows that it works, with small numbers that mean nothing.

#![expect(clippy::print_stdout, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod core;
mod fairness;
mod flow;
mod guarantee;
mod input;

fn main() {
    let full = std::env::args().any(|argument| argument == "--full");
    let input = input::Input::prepare();
    core::print(&input, full);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        flow::print(&input, full).await;
        guarantee::print(&input.report(0), full).await;
        fairness::print(&input, full).await;
    });
}
