//! `unslide simulate`: machines, latency and lag for a load, from measured service times.

mod queue;

use crate::prelude::*;
use queue::Machine;
use serde::Serialize;
use unslide_cli::quantity;

/// A stage and its batches, as the live lane and the default settings of the indexer have them.
struct Stage {
    name: &'static str,
    batch_reports: usize,
    gather_seconds: f64,
}

const SYMBOLIZER: Stage = Stage { name: "symbolizer", batch_reports: 200, gather_seconds: 0.005 };
const INDEXER: Stage = Stage { name: "indexer", batch_reports: 1_000, gather_seconds: 0.1 };

/// The used part of a machine above which another one is needed, whatever the latency: a restart needs room.
const MOST_UTILIZED: f64 = 0.75;

/// Arguments of `unslide simulate`: the load, the service times and the goal.
#[derive(Args)]
#[command(after_help = "\
Take service times from `scripts/bench flow` and `scripts/bench store` with reports like yours, on a machine like yours:
a worker with 1,000 reports/s takes 1 ms. The defaults are those of docs/benchmarks.md for reports with 320 frames.")]
pub struct Arguments {
    /// Reports that arrive in a second at the busiest time
    #[arg(long, value_name = "N", value_parser = positive)]
    reports_per_second: f64,
    /// Milliseconds that a symbolizer takes for a report
    #[arg(long, value_name = "MS", default_value = "1", value_parser = positive)]
    symbolize_ms: f64,
    /// Milliseconds that an indexer takes for a report
    #[arg(long, value_name = "MS", default_value = "2.2", value_parser = positive)]
    store_ms: f64,
    /// Milliseconds of a commit to Kafka, and of one to PostgreSQL
    #[arg(long, value_name = "MS", default_value = "5", value_parser = positive)]
    commit_ms: f64,
    /// Partitions of the topics of reports; more machines than these have no work
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    partitions: u32,
    /// The latency of 99 % of the reports in each stage that is wanted at most, in milliseconds
    #[arg(long, value_name = "MS", default_value = "250", value_parser = positive)]
    p99_ms: f64,
    /// The outage after which a backlog is to be worked off, such as 10m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = quantity::seconds)]
    outage: u32,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.001..=1e9).contains(number));
    number.ok_or_else(|| format!("{text} is no number between 0.001 and a billion"))
}

/// Machines of one stage, and what the busiest of them does.
#[derive(Debug, PartialEq, Serialize)]
struct StageSize {
    stage: &'static str,
    /// The fewest machines that fulfil the goal, or all that have work if these do not.
    machines: u32,
    /// True if the goal is fulfilled.
    fits: bool,
    utilization: f64,
    /// `None` if reports pile up.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Reports that wait after the outage.
    backlog: f64,
    catch_up_seconds: Option<f64>,
}

/// Computes the machines of each stage and prints them.
pub fn run(arguments: &Arguments) -> Outcome {
    let stages = [
        size_stage(arguments, &SYMBOLIZER, arguments.symbolize_ms),
        size_stage(arguments, &INDEXER, arguments.store_ms),
    ];
    if arguments.json {
        Console::get().print_json(&json!({ "stages": stages }))?;
    } else {
        print_stages(arguments, &stages);
    }
    Ok(if stages.iter().all(|stage| stage.fits) { Exit::Ready } else { Exit::Failed })
}

/// Finds the fewest machines whose busiest one fulfils the goal.
fn size_stage(arguments: &Arguments, stage: &Stage, service_ms: f64) -> StageSize {
    let with = |machines: u32| {
        // The busiest machine has one partition more than others if they cannot be divided evenly.
        let share = f64::from(arguments.partitions.div_ceil(machines)) / f64::from(arguments.partitions);
        let machine = Machine {
            reports_per_second: arguments.reports_per_second * share,
            service_seconds: service_ms / 1_000.0,
            batch_seconds: arguments.commit_ms / 1_000.0,
            batch_reports: stage.batch_reports,
            gather_seconds: stage.gather_seconds,
        };
        let outage = f64::from(arguments.outage);
        let latency = machine.simulate();
        let is_fast = latency.is_some_and(|latency| latency.p99 * 1_000.0 <= arguments.p99_ms);
        StageSize {
            stage: stage.name,
            machines,
            fits: is_fast && machine.utilization() <= MOST_UTILIZED,
            utilization: machine.utilization(),
            p50_ms: latency.map(|latency| latency.p50 * 1_000.0),
            p99_ms: latency.map(|latency| latency.p99 * 1_000.0),
            backlog: arguments.reports_per_second * outage,
            catch_up_seconds: machine.catch_up_seconds(outage),
        }
    };
    let mut machines = 1;
    loop {
        let size = with(machines);
        if size.fits || machines == arguments.partitions {
            return size;
        }
        // Only a smaller largest share makes a difference.
        let partitions = arguments.partitions.div_ceil(machines);
        machines = (machines + 1..arguments.partitions)
            .find(|more| arguments.partitions.div_ceil(*more) < partitions)
            .unwrap_or(arguments.partitions);
    }
}

fn print_stages(arguments: &Arguments, stages: &[StageSize]) {
    let mut table = Table::new(&["stage", "machines", "busy", "p50", "p99", "backlog", "gone after"]);
    let milliseconds =
        |value: Option<f64>| value.map_or_else(|| "grows".to_owned(), |ms| format!("{ms:.0} ms"));
    for stage in stages {
        table.add_row([
            stage.stage.to_owned(),
            stage.machines.to_string(),
            format!("{:.0} %", stage.utilization * 100.0),
            milliseconds(stage.p50_ms),
            milliseconds(stage.p99_ms),
            format!("{:.0}", stage.backlog),
            stage.catch_up_seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.0} s")),
        ]);
    }
    table.print();
    for stage in stages.iter().filter(|stage| !stage.fits) {
        say!(
            "{} machines of the stage {} are too few, and more have no work with {} partitions: raise the partitions, \
             or shorten the service time",
            stage.machines,
            stage.stage,
            arguments.partitions,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn arguments(line: &str) -> Arguments {
        let command = Arguments::augment_args(Command::new("simulate").no_binary_name(true));
        Arguments::from_arg_matches(&command.get_matches_from(line.split(' '))).unwrap()
    }

    fn machines(line: &str) -> (u32, bool) {
        let arguments = arguments(line);
        let stage = size_stage(&arguments, &SYMBOLIZER, arguments.symbolize_ms);
        (stage.machines, stage.fits)
    }

    #[test]
    fn machines_follow_the_load_and_the_partitions_bound_them() {
        assert_eq!(machines("--reports-per-second 100"), (1, true));
        assert_eq!(machines("--reports-per-second 1400"), (2, true));
        assert_eq!(
            machines("--reports-per-second 5000"),
            (12, true),
            "seven machines have two partitions each"
        );
        assert_eq!(machines("--reports-per-second 5000 --partitions 64"), (8, true));
        assert_eq!(machines("--reports-per-second 20000"), (12, false));
        assert_eq!(machines("--reports-per-second 100 --p99-ms 1"), (12, false), "a commit takes 5 ms");
    }
}
