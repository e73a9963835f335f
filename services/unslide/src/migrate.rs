//! `unslide migrate`.

use crate::boot;
use crate::cli::Configured;
use crate::configuration::administration;
use crate::failure::Outcome;
use clap::Args;
use std::process::ExitCode;

/// Arguments of `unslide migrate`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Create the Kafka topics as well
    #[arg(long)]
    topics: bool,
}

/// Applies the migrations and, where asked, creates the topics. Again changes nothing.
pub fn run(arguments: &Arguments) -> Outcome {
    let administration = administration(&arguments.configured, arguments.topics)?;
    boot::block_on(async {
        let migrated = unslide_store::migrate(&administration.postgres.url).await?;
        println!("database: {} of {} migrations applied now", migrated.applied, migrated.total);
        if arguments.topics {
            for (topic, created) in unslide_stream::admin::create(&administration.kafka).await? {
                println!("topic {topic}: {}", created.as_str());
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
