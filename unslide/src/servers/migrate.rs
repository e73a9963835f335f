//! `unslide migrate`.

use crate::configuration::{self, Administration, Configured, load_administration};
use crate::prelude::*;
use crate::servers::logins::{self, AclArguments};
use unslide_history::History;
use unslide_indexer::Reset;
use unslide_store::positions::PartitionPosition;
use unslide_store::{Settings, tenants};
use unslide_stream::{PartitionCount, add_partitions, admin};

/// Arguments of `unslide migrate`: the database, the topics and the logins.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Create the Kafka topics as well
    #[arg(long)]
    topics: bool,
    /// Give the topics of reports, enriched reports, sessions and metrics at least this many partitions, while services run
    #[arg(long, requires = "topics", value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    partitions: Option<u16>,
    /// After Kafka was lost or restored: have every tenant announced to the workers again, and put
    /// positions of the indexer that lie outside their topics to the topics' beginnings
    #[arg(long, requires = "topics")]
    recover: bool,
    #[command(flatten)]
    access: AclArguments,
}

/// Applies the migrations and, with `--topics`, creates the topics, or adds partitions to them. A second run changes nothing.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.access.acls {
        return logins::print_rules(&configuration::load_kafka(&arguments.configured)?, &arguments.access);
    }
    let administration = load_administration(&arguments.configured, arguments.topics)?;
    block_on(async {
        let migrated = unslide_store::apply_migrations(&administration.postgres.url)
            .await
            .map_err(|error| boot::database_failed(&administration.postgres, error))?;
        say!("database: {} of {} migrations applied now", migrated.applied, migrated.total);
        if administration.history.is_on() {
            let history = History::new(&administration.history)?;
            history.create_schema().await?;
            say!("history: the tables at ClickHouse are there");
        }
        if arguments.topics {
            let created = admin::create_topics(&administration.kafka).await;
            let created = created.map_err(|error| boot::kafka_failed(&administration.kafka, error))?;
            for (topic, created) in created {
                say!("topic {topic}: {}", created.as_str());
            }
        }
        if let Some(partitions) = arguments.partitions {
            let added = add_partitions(&administration.kafka, partitions.into()).await;
            for count in added.map_err(|error| boot::kafka_failed(&administration.kafka, error))? {
                say!("topic {}: {}", count.topic, describe_change(&count));
            }
        }
        if arguments.recover {
            recover_installation(&administration).await?;
        }
        Ok(Exit::Ready)
    })
}

fn describe_change(count: &PartitionCount) -> String {
    let PartitionCount { before, after, .. } = count;
    if before == after {
        return format!("{before} partitions, as before");
    }
    format!("from {before} to {after} partitions")
}

/// Creates the error for a failure of either server, with its address.
fn reset_failed(administration: &Administration, error: unslide_indexer::Error) -> BoxError {
    match error {
        unslide_indexer::Error::Store(error) => boot::database_failed(&administration.postgres, error).into(),
        unslide_indexer::Error::Stream(error) => boot::kafka_failed(&administration.kafka, error).into(),
        error => error.into(),
    }
}

/// Makes the database and a Kafka that is younger, or older, agree again.
async fn recover_installation(administration: &Administration) -> Result<(), BoxError> {
    // The role that migrates owns the schema.
    let settings = Settings { any_login: true, ..administration.postgres.clone() };
    let store = boot::connect_database(&settings, &administration.hooks).await?;
    let announced = tenants::announce_all(&store).await?;
    say!("tenants: {announced} to be announced to the workers, by the next builder");
    let reset = unslide_indexer::reset_positions(&store, &administration.kafka).await;
    for Reset { before, next_offset, .. } in reset.map_err(|error| reset_failed(administration, error))? {
        let PartitionPosition { topic, partition, next_offset: from, .. } = before;
        say!("position of {topic}/{partition}: from {from} to {next_offset}");
    }
    Ok(())
}
