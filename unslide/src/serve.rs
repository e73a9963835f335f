//! One service in this process.

use crate::configuration::service::Service;
use crate::configuration::{self, Configuration, Configured};
use futures::FutureExt;
use futures::future::BoxFuture;
use unslide_cli::symbols::BUILD_SYMCACHE;
use unslide_cli::{BoxError, Exit, Outcome, block_on};
use unslide_runtime::{Host, Supervised, admin, supervise_services, telemetry};
use unslide_sandbox::child::ChildProgram;

/// Prepares the service's run, to be supervised.
///
/// # Errors
/// Returns an error if its metrics cannot have a registry.
pub fn prepare_service(
    service: Service,
    configuration: &Configuration,
    host: &Host,
) -> Result<Supervised, BoxError> {
    let host = host.for_service(service.name())?;
    let run: BoxFuture<'static, Result<(), BoxError>> = match service {
        Service::Api => {
            let (config, features) =
                (configuration.api.clone(), unslide_feature::for_api(&configuration.features));
            async move { Ok(Box::pin(unslide_api::run(config, features, host)).await?) }.boxed()
        }
        Service::Builder => {
            let (config, child) =
                (configuration.builder.clone(), ChildProgram::from_current_exe(&[BUILD_SYMCACHE])?);
            let features = unslide_feature::for_builder(&configuration.features);
            async move { Ok(Box::pin(unslide_builder::run(config, features, host, child)).await?) }.boxed()
        }
        Service::Indexer => {
            let (config, features) =
                (configuration.indexer.clone(), unslide_feature::for_indexer(&configuration.features));
            async move { Ok(Box::pin(unslide_indexer::run(config, features, host)).await?) }.boxed()
        }
        Service::Symbolizer => {
            let (config, features) =
                (configuration.symbolizer.clone(), unslide_feature::for_symbolizer(&configuration.features));
            async move { Ok(Box::pin(unslide_symbolizer::run(config, features, host)).await?) }.boxed()
        }
        Service::Door => {
            let config = configuration.door.clone();
            async move { Ok(Box::pin(unslide_door::run(config, host)).await?) }.boxed()
        }
    };
    Ok((service.name(), run))
}

/// Runs a service until a signal stops it.
pub fn run(service: Service, configured: &Configured) -> Outcome {
    let configuration = configuration::load_configuration(configured, Some(service))?;
    telemetry::init_logging(&configuration.process.log)?;
    block_on(async {
        let host = configuration.process.build_host()?;
        let admin = admin::start_server(&configuration.process.admin, &host).await?;
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(service.name = service.name(), service.version = version, admin.address = %admin, "starting");
        let running = prepare_service(service, &configuration, &host)?;
        let ended = supervise_services(vec![running], &host.shutdown).await;
        host.stop_traces().await;
        ended.map_err(|(_, error)| error)?;
        tracing::info!(service.name = service.name(), "stopped");
        Ok(Exit::Ready)
    })
}
