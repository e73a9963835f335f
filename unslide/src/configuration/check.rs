//! `unslide config check`.

use super::section::Section;
use super::service::Service;
use super::{Configuration, Configured};
use crate::servers::{connection_check, logins};
use clap::Args;
use unslide_cli::{Exit, Outcome, say};
use unslide_runtime::ConfigProblem;
use unslide_runtime::config::Sources;
use unslide_stream::access::KafkaLogin;

/// Arguments of `unslide config check`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Check what this service needs and no more, or `migrate` or `audit` [default: all services]
    #[arg(long, value_name = "NAME", value_parser = logins::parse)]
    service: Option<KafkaLogin>,
    /// Connect as the service would, and try each right that it needs at Kafka, PostgreSQL and object storage; of `migrate` and
    /// `audit` those at Kafka
    #[arg(long)]
    connect: bool,
}

/// Lists the problems of the configuration. If there are none and `--connect` is given, tries the
/// connections.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut reader = Sources::from_process(arguments.configured.config.as_deref()).read();
    let configuration = Configuration::from_reader(&mut reader);
    for mut warning in configuration.list_warnings(arguments.service) {
        warning.origin = reader.find_origin(&warning.key).map(str::to_owned);
        say!("warning: {warning}");
    }
    reader.note_all(configuration.list_problems(arguments.service));
    if let Err(problems) = reader.finish() {
        for problem in &problems.0 {
            say!("{problem}");
        }
        return Ok(Exit::Usage);
    }
    say!("the configuration is fine");
    if configuration.api.cells.is_on() {
        say!("this is the cell {}", configuration.api.cells.name);
    }
    if arguments.service.is_none_or(is_service) {
        match &configuration.process.traces.settings {
            Some(collector) => say!("traces are exported to {collector}"),
            None => say!(
                "traces are not exported: OTEL_EXPORTER_OTLP_ENDPOINT is not set, or others turn them off"
            ),
        }
    }
    if !configuration.api.api.trusted_proxies.is_empty()
        && arguments.service.is_none_or(|login| login == KafkaLogin::Api)
    {
        say!("requests of api.trusted_proxies without X-Forwarded-For have no limits by address");
    }
    if arguments.connect { connection_check::run(&configuration, arguments.service) } else { Ok(Exit::Ready) }
}

/// Returns true for the login of a service that runs all the time.
fn is_service(login: KafkaLogin) -> bool {
    matches!(login, KafkaLogin::Api | KafkaLogin::Builder | KafkaLogin::Indexer | KafkaLogin::Symbolizer)
}

impl Configuration {
    /// Returns the problems of the sections that a login reads; of all sections for `None`.
    fn list_problems(&self, login: Option<KafkaLogin>) -> Vec<ConfigProblem> {
        match login {
            None => self.validate(None),
            Some(KafkaLogin::Api) => self.validate(Some(Service::Api)),
            Some(KafkaLogin::Builder) => self.validate(Some(Service::Builder)),
            Some(KafkaLogin::Indexer) => self.validate(Some(Service::Indexer)),
            Some(KafkaLogin::Symbolizer) => self.validate(Some(Service::Symbolizer)),
            Some(KafkaLogin::Migrate) => self.administration_problems(true),
            Some(KafkaLogin::Audit | KafkaLogin::Gateway | KafkaLogin::Keda) => self.kafka_problems(),
        }
    }

    /// Returns warnings of settings that are unsafe if others can reach the network.
    fn list_warnings(&self, login: Option<KafkaLogin>) -> Vec<ConfigProblem> {
        let reads = |section: Section| login.is_none_or(|login| section.is_read_by(login));
        let kafka = self.api.kafka.find_insecure();
        let objects = self.api.objects.find_insecure().filter(|_| reads(Section::Objects));
        let postgres = self.api.postgres.insecure().filter(|_| reads(Section::Postgres));
        let history = self.api.history.find_insecure().filter(|_| reads(Section::History));
        let sections = [("kafka", kafka), ("objects", objects), ("postgres", postgres), ("history", history)];
        let problems = sections.into_iter().map(|(section, found)| ConfigProblem::in_section(section, found));
        let settings = self.features.iter().filter_map(|feature| feature.settings.as_ref());
        let of_features = settings.flat_map(|settings| settings.warnings.clone());
        let of_api = of_features.chain(self.api.api.find_insecure());
        let of_api = of_api.filter(|_| login.is_none_or(|login| login == KafkaLogin::Api));
        let of_door = self.door.door.find_insecure().filter(|_| login.is_none());
        problems.flatten().chain(of_api).chain(of_door).collect()
    }
}
