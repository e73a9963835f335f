//! The composition of services and features, for `unslide dev` and `unslide demo`.

use crate::configuration::service::Service;
use crate::configuration::{Configuration, load_unchecked};
use crate::features::KEY_MAKERS;
use crate::serve;
use std::path::Path;
use tokio::net::TcpListener;
use unslide_cli::{AddLine, BoxError};
use unslide_dev::{Product, ServiceConfigs};
use unslide_feature::KeyRequest;
use unslide_model::TenantId;
use unslide_runtime::{ConfigProblem, Host, Supervised, telemetry};
use unslide_store::Store;

impl Product for Configuration {
    fn load_settings(config: Option<&Path>) -> Result<Configuration, BoxError> {
        Ok(load_unchecked(config)?)
    }

    fn log_settings(&mut self) -> &mut telemetry::Settings {
        &mut self.process.log
    }

    fn create_host(&self) -> Result<Host, BoxError> {
        self.process.build_host()
    }

    fn service_configs(&mut self) -> ServiceConfigs<'_> {
        let Configuration { api, builder, indexer, symbolizer, .. } = self;
        ServiceConfigs { api, builder, indexer, symbolizer }
    }

    fn validate_settings(&self) -> Vec<ConfigProblem> {
        Configuration::validate(self, None)
    }

    async fn make_public_path(
        &self,
        store: &Store,
        tenant: &TenantId,
        apps: &[String],
    ) -> Result<Option<String>, BoxError> {
        let Some(maker) = KEY_MAKERS.first() else { return Ok(None) };
        let request = KeyRequest { name: "unslide dev", apps, expires_at: None };
        let key = (maker.make)(store, tenant, request).await?;
        Ok(Some(format!("{}{key}", maker.url_path)))
    }

    fn list_added_lines() -> Vec<AddLine> {
        unslide_client::features::FEATURES.iter().filter_map(|feature| feature.add_line).collect()
    }

    fn prepare_services(&self, host: &Host, listener: TcpListener) -> Result<Vec<Supervised>, BoxError> {
        let others = Service::ALL.into_iter().filter(|service| *service != Service::Api);
        let mut services = others
            .map(|service| serve::prepare_service(service, self, host))
            .collect::<Result<Vec<_>, _>>()?;
        let (api, api_host) = (self.api.clone(), host.for_service("api")?);
        let features = unslide_feature::for_api(&self.features);
        let run_api =
            async move { Ok(Box::pin(unslide_api::run_on(listener, api, features, api_host)).await?) };
        services.push(("api", Box::pin(run_api)));
        Ok(services)
    }
}
