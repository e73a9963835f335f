//! `unslide fsck`: compares PostgreSQL, object storage and Kafka. After a restore of one of them they may
//! differ.

mod disagreement;
mod files;

use crate::configuration::{self, Administration, Configured, ServerSections};
use crate::prelude::*;
use disagreement::{Disagreement, DisagreementKind, Disagreements};
use std::collections::BTreeSet;
use unslide_artifacts::ObjectStore;
use unslide_cli::quantity;
use unslide_model::format_time;
use unslide_store::{Store, deferred, positions, tenants};

/// Arguments of `unslide fsck`: the age of objects and the output.
#[derive(Args)]
#[command(after_help = "\
It changes nothing, and may run beside the services. Exit code 0 means that nothing was found.")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// How many of each kind to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// How old a file without a row is before it counts, such as 90s or 1h: services write some files before their rows
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = quantity::seconds)]
    age: u32,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Compares, and prints what was found with what repairs it.
pub fn run(arguments: &Arguments) -> Outcome {
    let ServerSections { administration: servers, objects } = configuration::for_fsck(&arguments.configured)?;
    let mut found = Disagreements::new(arguments.limit);
    block_on(async {
        let store = boot::connect_database(&servers.postgres, &servers.hooks).await?;
        check_kafka(&store, &servers, &mut found).await?;
        let objects = ObjectStore::s3(&objects).await;
        let age = time::Duration::seconds(arguments.age.into());
        Box::pin(files::check_files(&store, &objects, age, &mut found)).await
    })?;
    let (kept, counts) = found.into_kept();
    if arguments.json {
        Console::get()
            .print_json(&json!({ "clean": kept.is_empty(), "counts": counts, "disagreements": kept }))?;
    } else {
        print_found(&kept);
        for (problem, count) in &counts {
            say!("{problem}: {count}");
        }
        if counts.is_empty() {
            say!("PostgreSQL, object storage and Kafka agree");
        }
    }
    Ok(if kept.is_empty() { Exit::Ready } else { Exit::Unbalanced })
}

fn print_found(found: &[Disagreement]) {
    for Disagreement { problem, subject, detail, repair } in found {
        say!("{problem}: {subject}: {detail}");
        say!("    repair: {repair}");
    }
}

/// Positions against topics, and reports of tenants that do not exist.
async fn check_kafka(
    store: &Store,
    servers: &Administration,
    found: &mut Disagreements,
) -> Result<(), BoxError> {
    let misplaced = unslide_indexer::misplaced_positions(store, &servers.kafka).await?;
    for reset in misplaced {
        let before = reset.before;
        found.add_disagreement(Disagreement {
            problem: DisagreementKind::PositionOutsideTopic,
            subject: format!("{}/{}", before.topic, before.partition),
            detail: format!(
                "the indexer's position is offset {} of the topic {}, but the first offset of the topic {} is {}",
                before.next_offset, before.topic_id, reset.topic_id, reset.next_offset
            ),
            repair: "unslide migrate --topics --recover".to_owned(),
        });
    }
    let topics: BTreeSet<String> =
        positions::read_all_positions(store).await?.into_iter().map(|at| at.topic).collect();
    let ranges = deferred::list_ranges(store, &topics.into_iter().collect::<Vec<_>>()).await?;
    let names: BTreeSet<_> = ranges.iter().map(|range| range.tenant.clone()).collect();
    for tenant in tenants::find_unknown(store, &names).await? {
        let own = || ranges.iter().filter(|range| range.tenant == tenant);
        let records: i64 = own().map(|range| range.records).sum();
        let oldest = own().map(|range| range.oldest_at.unix_timestamp() * 1_000).min().unwrap_or_default();
        found.add_disagreement(Disagreement {
            problem: DisagreementKind::ReportsWithoutTenant,
            subject: tenant.to_string(),
            detail: format!("{records} reports wait in Kafka, the oldest since {}", format_time(oldest)),
            repair: format!("unslide tenant create {tenant}"),
        });
    }
    Ok(())
}
