//! The composition of services and features, for `unslide dev` and `unslide demo`.

use crate::configuration::service::Service;
use crate::configuration::{Configuration, load_unchecked};
use crate::features::FEATURES;
use crate::serve;
use std::path::Path;
use tokio::net::TcpListener;
use unslide_api::entropy::Entropy;
use unslide_cli::{AddLine, BoxError};
use unslide_dev::{Product, ServiceConfigs};
use unslide_model::TenantId;
use unslide_runtime::{ConfigProblem, Host, Supervised, telemetry};
use unslide_store::Store;
use unslide_store::accounts::create_key_of_kind;
use unslide_store::cells::CellSettings;
use unslide_store::keys::{KeyPlace, NewKey};

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

    fn create_cell_host(&self, host: &Host) -> Result<Host, BoxError> {
        let host = Host::new(host.clock.clone(), host.shutdown.clone(), host.cpu.clone())?;
        Ok(host.with_traces(self.process.traces.settings.clone()))
    }

    fn service_configs(&mut self) -> ServiceConfigs<'_> {
        let Configuration { api, builder, indexer, symbolizer, .. } = self;
        ServiceConfigs { api, builder, indexer, symbolizer }
    }

    fn set_cells(&mut self, cells: CellSettings) {
        self.api.cells = cells.clone();
        self.door.cells = cells;
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
        let kinds = unslide_feature::collect_key_kinds(FEATURES);
        let Some((kind, path)) = kinds.into_iter().find_map(|kind| match kind.place {
            KeyPlace::Path(path) if kind.is_public => Some((kind, path)),
            KeyPlace::Path(_) | KeyPlace::HeaderBelow(_) | KeyPlace::Header => None,
        }) else {
            return Ok(None);
        };
        let (name, apps) = ("unslide dev".to_owned(), apps.to_vec());
        let new = NewKey { name, scopes: Vec::new(), apps, expires_at: None };
        let new = kind.check_new(new, store.now())?;
        let entropy = Entropy::default().generate_key()?;
        let text = create_key_of_kind(store, tenant, kind, &new, &entropy).await?;
        Ok(Some(format!("{path}{}", text.reveal())))
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

    fn prepare_door(&self, host: &Host, listener: TcpListener) -> Result<Supervised, BoxError> {
        let (mut config, host) = (self.door.clone(), host.for_service(Service::Door.name())?);
        // The embedded server has one login.
        config.postgres.any_login = true;
        config.door.stop_delay_seconds = 0;
        let run_door = async move { Ok(Box::pin(unslide_door::run_on(listener, config, host)).await?) };
        Ok((Service::Door.name(), Box::pin(run_door)))
    }
}
