//! The configuration of everything, from one set of sources.

use crate::boot::Process;
use crate::cli::Configured;
use crate::failure::Outcome;
use crate::serve::Service;
use serde::Deserialize;
use std::process::ExitCode;
use unslide_proto::signed::SigningKey;
use unslide_runtime::Problem;
use unslide_runtime::config::{Problems, Reader, Sources};

/// What each part reads from the sources. A part knows its own sections only; a key that none of
/// them knows is a mistake.
pub struct Configuration {
    pub process: Process,
    pub api: unslide_api::Config,
    pub builder: unslide_builder::Config,
    pub indexer: unslide_indexer::Config,
    pub symbolizer: unslide_symbolizer::Config,
}

impl Configuration {
    fn read(reader: &mut Reader) -> Configuration {
        Configuration {
            process: reader.whole(),
            api: reader.whole(),
            builder: reader.whole(),
            indexer: reader.whole(),
            symbolizer: reader.whole(),
        }
    }

    /// What is wrong with the parts that the given service uses; with all parts for `None`.
    pub fn validate(&self, service: Option<Service>) -> Vec<Problem> {
        let mut problems = self.process.validate();
        let of = |one: Service| service.is_none_or(|service| service == one);
        if of(Service::Api) {
            problems.extend(self.api.validate());
        }
        if of(Service::Builder) {
            problems.extend(self.builder.validate());
        }
        if of(Service::Indexer) {
            problems.extend(self.indexer.validate());
        }
        if of(Service::Symbolizer) {
            problems.extend(self.symbolizer.validate());
        }
        // Only where one configuration is everybody's: a service need not know the others' sections.
        if service.is_none() {
            problems.extend(self.signing());
        }
        problems
    }

    /// What the api sends, symbolizers that ask for signatures have to take.
    fn signing(&self) -> Option<Problem> {
        let (own, asked) = (&self.api.api.signing, &self.symbolizer.symbolizer.signatures);
        if !asked.required {
            return None;
        }
        let Ok(key) = SigningKey::parse(&own.key) else {
            let text = "is needed where `symbolizer.signatures.required` is set: else every report sent over HTTP and \
                        every replay of one report of an array is the dead letter `no_signature`";
            return own.key.reveal().is_empty().then(|| Problem::new("api.signing.key", text));
        };
        let public = key.verifying().to_string();
        let taken = asked.keys.iter().any(|known| {
            known.name == own.name
                && known.public_key.trim() == public
                && known.tenants.iter().any(|tenant| tenant == "*")
        });
        (!taken).then(|| {
            let text = "is not among `symbolizer.signatures.keys` with the tenants \"*\": symbolizers would refuse what the \
                        api sends";
            Problem::new("api.signing.key", text)
        })
    }
}

/// The configuration for one service, or for all of them.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(configured: &Configured, service: Option<Service>) -> Result<Configuration, Problems> {
    let mut reader = Sources::process(configured.config.as_deref()).read();
    let configuration = Configuration::read(&mut reader);
    reader.note_all(configuration.validate(service));
    reader.finish()?;
    Ok(configuration)
}

/// The configuration with nothing asked of it yet, for `unslide dev`, which fills in its servers.
///
/// # Errors
/// What cannot be read.
pub fn load_unchecked(configured: &Configured) -> Result<Configuration, Problems> {
    let mut reader = Sources::process(configured.config.as_deref()).read();
    let configuration = Configuration::read(&mut reader);
    reader.finish()?;
    Ok(configuration)
}

/// The sections that administrative commands use.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Administration {
    pub postgres: unslide_store::Settings,
    pub kafka: unslide_stream::Settings,
}

/// The sections for an administrative command, which needs the database and perhaps Kafka.
///
/// # Errors
/// Everything that is wrong with them.
pub fn administration(configured: &Configured, kafka: bool) -> Result<Administration, Problems> {
    let mut reader = Sources::process(configured.config.as_deref()).read();
    let administration: Administration = reader.whole();
    // Read for the keys' sake: what the services know is no mistake here.
    Configuration::read(&mut reader);
    reader.note_all(Problem::in_section("postgres", administration.postgres.problems()));
    if kafka {
        reader.note_all(Problem::in_section("kafka", administration.kafka.problems()));
    }
    reader.finish()?;
    Ok(administration)
}

/// The section `kafka`, for a command that needs nothing else.
///
/// # Errors
/// Everything that is wrong with it.
pub fn kafka(configured: &Configured) -> Result<unslide_stream::Settings, Problems> {
    let mut reader = Sources::process(configured.config.as_deref()).read();
    let administration: Administration = reader.whole();
    // Read for the keys' sake: what the services know is no mistake here.
    Configuration::read(&mut reader);
    reader.note_all(Problem::in_section("kafka", administration.kafka.problems()));
    reader.finish()?;
    Ok(administration.kafka)
}

/// `unslide config check`.
pub fn check(configured: &Configured) -> Outcome {
    match load(configured, None) {
        Ok(_) => {
            println!("the configuration is fine");
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            for problem in &problems.0 {
                println!("{problem}");
            }
            Ok(ExitCode::FAILURE)
        }
    }
}
