//! One service in this process.

use crate::boot;
use crate::cli::{BUILD_SYMCACHE, Configured};
use crate::configuration::{self, Configuration};
use crate::failure::{BoxError, Exit, Outcome};
use futures::FutureExt;
use futures::future::BoxFuture;
use unslide_runtime::child::ChildProgram;
use unslide_runtime::{Host, Supervised, admin, supervise, telemetry};

/// The services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Api,
    Builder,
    Indexer,
    Symbolizer,
}

impl Service {
    #[cfg(feature = "dev")]
    pub const ALL: [Service; 4] = [Service::Builder, Service::Symbolizer, Service::Indexer, Service::Api];

    fn name(self) -> &'static str {
        match self {
            Service::Api => "api",
            Service::Builder => "builder",
            Service::Indexer => "indexer",
            Service::Symbolizer => "symbolizer",
        }
    }

    /// The service's run, to be supervised.
    ///
    /// # Errors
    /// Where its metrics cannot have a registry.
    pub fn prepare(self, configuration: &Configuration, host: &Host) -> Result<Supervised, BoxError> {
        let host = host.for_service(self.name())?;
        let run: BoxFuture<'static, Result<(), BoxError>> = match self {
            Service::Api => {
                let config = configuration.api.clone();
                async move { Ok(Box::pin(unslide_api::run(config, host)).await?) }.boxed()
            }
            Service::Builder => {
                let (config, child) =
                    (configuration.builder.clone(), ChildProgram::current(&[BUILD_SYMCACHE])?);
                async move { Ok(Box::pin(unslide_builder::run(config, host, child)).await?) }.boxed()
            }
            Service::Indexer => {
                let config = configuration.indexer.clone();
                async move { Ok(Box::pin(unslide_indexer::run(config, host)).await?) }.boxed()
            }
            Service::Symbolizer => {
                let config = configuration.symbolizer.clone();
                async move { Ok(Box::pin(unslide_symbolizer::run(config, host)).await?) }.boxed()
            }
        };
        Ok((self.name(), run))
    }
}

/// Runs a service until it is told to stop.
pub fn run(service: Service, configured: &Configured) -> Outcome {
    let configuration = configuration::load(configured, Some(service))?;
    telemetry::init(&configuration.process.log)?;
    boot::block_on(async {
        let host = configuration.process.host()?;
        let admin = admin::start(&configuration.process.admin, &host).await?;
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(service.name = service.name(), service.version = version, admin.address = %admin, "starting");
        let running = service.prepare(&configuration, &host)?;
        supervise(vec![running], &host.shutdown).await.map_err(|(_, error)| error)?;
        tracing::info!(service.name = service.name(), "stopped");
        Ok(Exit::Ready)
    })
}
