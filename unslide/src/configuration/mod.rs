//! The configuration of everything, from one set of sources.

use crate::boot::{Process, TraceVariables};
use crate::features;
use service::Service;
use settings::Effective;
use unslide_cli::{Console, Exit, Outcome, say};
use unslide_feature::{ConfiguredFeature, collect_hooks};
use unslide_history::HistorySettings;
use unslide_runtime::config::{ConfigReader, Problems, Sources};
use unslide_runtime::{ConfigProblem, TenantDefaults};
use unslide_signatures::SigningKey;
use unslide_store::StoreHook;
use unslide_store::cells::CellSettings;

pub mod cell_pair;
pub mod check;
mod reference;
pub mod section;
pub mod service;
mod settings;

pub use unslide_cli::Configured;

/// The settings that each part reads from the sources. A part knows its own sections only. A key that none of
/// them knows is a mistake.
pub struct Configuration {
    pub process: Process,
    pub api: unslide_api::Config,
    pub builder: unslide_builder::Config,
    pub indexer: unslide_indexer::Config,
    pub symbolizer: unslide_symbolizer::Config,
    pub door: unslide_door::Config,
    pub features: Vec<ConfiguredFeature>,
}

impl Configuration {
    fn from_reader(reader: &mut ConfigReader) -> Configuration {
        let mut configuration = Configuration {
            process: reader.read_whole(),
            api: reader.read_whole(),
            builder: reader.read_whole(),
            indexer: reader.read_whole(),
            symbolizer: reader.read_whole(),
            door: reader.read_whole(),
            features: features::read_features(reader),
        };
        configuration.process.traces = TraceVariables::from_environment();
        let data = &configuration.process.process.data_dir;
        configuration.api.api.cache_dir = data.join(Service::Api.name());
        configuration.symbolizer.symbolizer.cache_dir = data.join(Service::Symbolizer.name());
        configuration.builder.builder.work_dir = data.join(Service::Builder.name());
        configuration
    }

    /// Returns the problems of the parts that the given service uses, or of all parts for `None`.
    pub fn validate(&self, service: Option<Service>) -> Vec<ConfigProblem> {
        let mut problems = self.process.validate();
        let of = |one: Service| service.is_none_or(|service| service == one);
        let settings = self.features.iter().filter_map(|feature| feature.settings.as_ref());
        let of_features = settings.flat_map(|settings| settings.problems.clone());
        if of(Service::Api) {
            problems.extend(self.api.validate());
            // The api reads all settings of features, the builder those in its own section.
            problems.extend(of_features);
        } else if of(Service::Builder) {
            problems.extend(of_features.filter(|problem| problem.key.starts_with("builder.")));
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
        match service {
            Some(Service::Door) => problems.extend(self.door.validate()),
            // An installation without a door has no directory, and the api has said what is wrong with the one that is there.
            None => problems.extend(self.door.door.validate()),
            Some(_) => {}
        }
        // This needs one configuration for all services: a service need not know the others' sections.
        if service.is_none() {
            problems.extend(self.check_signing());
        }
        problems
    }

    /// Checks that symbolizers that require signatures accept those of the api.
    fn check_signing(&self) -> Option<ConfigProblem> {
        let (own, asked) = (&self.api.api.signing, &self.symbolizer.symbolizer.signatures);
        if !asked.required {
            return None;
        }
        let Ok(key) = SigningKey::parse(&own.key) else {
            let text = "is required if `symbolizer.signatures.required` is set: without it, every report sent over HTTP and \
                        every replay of one report of an array is the dead letter `no_signature`";
            return own.key.reveal().is_empty().then(|| ConfigProblem::new("api.signing.key", text));
        };
        let public = key.verifying_key().to_string();
        let taken = asked.keys.iter().any(|known| {
            known.name == own.name
                && known.public_key.trim() == public
                && known.tenants.iter().any(|tenant| tenant == "*")
        });
        (!taken).then(|| {
            let text = "is not among `symbolizer.signatures.keys` with the tenants \"*\": symbolizers would refuse what the \
                        api sends";
            ConfigProblem::new("api.signing.key", text)
        })
    }
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            process: Process::default(),
            api: unslide_api::Config::default(),
            builder: unslide_builder::Config::default(),
            indexer: unslide_indexer::Config::default(),
            symbolizer: unslide_symbolizer::Config::default(),
            door: unslide_door::Config::default(),
            features: features::read_features(&mut Sources::new(None, []).read()),
        }
    }
}

/// Reads the configuration, and has a part of it checked.
fn read_checked<T>(
    configured: &Configured,
    check: impl FnOnce(&Configuration) -> Vec<ConfigProblem>,
    part: impl FnOnce(Configuration) -> T,
) -> Result<T, Problems> {
    let mut reader = Sources::from_process(configured.config.as_deref()).read();
    let configuration = Configuration::from_reader(&mut reader);
    reader.note_all(check(&configuration));
    reader.finish()?;
    Ok(part(configuration))
}

/// Loads the configuration for one service, or for all of them.
///
/// # Errors
/// Returns everything that is wrong with it.
pub fn load_configuration(
    configured: &Configured,
    service: Option<Service>,
) -> Result<Configuration, Problems> {
    read_checked(configured, |configuration| configuration.validate(service), |configuration| configuration)
}

/// Loads the configuration without checks, for `unslide dev`, which fills in its servers.
///
/// # Errors
/// Returns the parts that cannot be read.
#[cfg(feature = "dev")]
pub fn load_unchecked(config: Option<&std::path::Path>) -> Result<Configuration, Problems> {
    read_checked(
        &Configured { config: config.map(ToOwned::to_owned) },
        |_| Vec::new(),
        |configuration| configuration,
    )
}

/// The sections that administrative commands use.
pub struct Administration {
    pub postgres: unslide_store::Settings,
    pub kafka: unslide_stream::Settings,
    pub history: HistorySettings,
    pub cells: CellSettings,
    /// Limits of tenants that have none of their own.
    pub tenants: TenantDefaults,
    /// The hooks of features, as they are configured.
    pub hooks: Vec<StoreHook>,
}

/// The sections of all servers.
pub struct ServerSections {
    pub administration: Administration,
    pub objects: unslide_artifacts::Settings,
}

impl Configuration {
    /// Returns the problems of the sections `postgres` and, if asked for, `kafka`.
    fn administration_problems(&self, kafka: bool) -> Vec<ConfigProblem> {
        let postgres = ConfigProblem::in_section("postgres", self.api.postgres.problems());
        let history = ConfigProblem::in_section("history", self.api.history.problems());
        let cells = ConfigProblem::in_section("cells", self.api.cells.problems());
        let kafka = if kafka { self.kafka_problems() } else { Vec::new() };
        postgres.chain(history).chain(cells).chain(kafka).collect()
    }

    /// Returns the problems of the sections of all servers.
    fn server_problems(&self) -> Vec<ConfigProblem> {
        let objects = ConfigProblem::in_section("objects", self.api.objects.problems());
        self.administration_problems(true).into_iter().chain(objects).collect()
    }

    /// Keeps the sections of all servers.
    fn into_servers(self) -> ServerSections {
        let Configuration { api, features, .. } = self;
        let administration = Administration {
            postgres: api.postgres,
            kafka: api.kafka,
            history: api.history,
            cells: api.cells,
            tenants: api.tenants,
            hooks: collect_hooks(&features),
        };
        ServerSections { administration, objects: api.objects }
    }

    fn kafka_problems(&self) -> Vec<ConfigProblem> {
        ConfigProblem::in_section("kafka", self.api.kafka.problems()).collect()
    }
}

/// Loads the sections for an administrative command, which needs the database and perhaps Kafka.
///
/// # Errors
/// Returns everything that is wrong with them.
pub fn load_administration(configured: &Configured, kafka: bool) -> Result<Administration, Problems> {
    let problems = |configuration: &Configuration| configuration.administration_problems(kafka);
    read_checked(configured, problems, |configuration| configuration.into_servers().administration)
}

/// Loads the sections of all servers, for a command that compares them.
///
/// # Errors
/// Returns everything that is wrong with them.
pub fn for_fsck(configured: &Configured) -> Result<ServerSections, Problems> {
    read_checked(configured, Configuration::server_problems, Configuration::into_servers)
}

/// Loads the sections `cells` and `postgres`, for a command on all cells.
///
/// # Errors
/// Returns everything that is wrong with them.
pub fn load_cells(configured: &Configured) -> Result<unslide_door::Config, Problems> {
    read_checked(
        configured,
        |configuration| configuration.door.validate(),
        |configuration| configuration.door,
    )
}

/// Loads the section `kafka`, for a command that needs nothing else.
///
/// # Errors
/// Returns everything that is wrong with it.
pub fn load_kafka(configured: &Configured) -> Result<unslide_stream::Settings, Problems> {
    read_checked(configured, Configuration::kafka_problems, |configuration| configuration.api.kafka)
}

/// `unslide config show`: prints each value and its source.
pub fn show_values(configured: &Configured, json: bool) -> Outcome {
    let mut reader = Sources::from_process(configured.config.as_deref()).read();
    let configuration = Configuration::from_reader(&mut reader);
    let effective = configuration.setting_values().into_iter().map(|(key, value)| Effective {
        source: reader.find_origin(&key).unwrap_or("default").to_owned(),
        key,
        value,
    });
    let effective: Vec<Effective> = effective.collect();
    if json {
        say!("{}", serde_json::to_string(&effective)?);
    } else {
        for one in &effective {
            say!("{} = {}   # {}", one.key, settings::format_toml(&one.value), one.source);
        }
    }
    reader.finish()?;
    Ok(Exit::Ready)
}

pub fn print_example() -> Outcome {
    Console::get().say_lines(reference::render_example().trim_end());
    Ok(Exit::Ready)
}

pub fn print_reference() -> Outcome {
    Console::get().say_lines(reference::render_page().trim_end());
    Ok(Exit::Ready)
}
