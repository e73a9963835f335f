//! The part of the embedded servers that one installation uses, and the steps before its services start.

use super::{Embedded, PUBLIC_APPS, state};
use crate::product::{Product, ServiceConfigs};
use state::Credentials;
use std::path::PathBuf;
use unslide_api::entropy::Entropy;
use unslide_cli::BoxError;
use unslide_model::{Scope, Secret, TenantId};
use unslide_runtime::Host;
use unslide_store::accounts::{create_key, create_tenant};
use unslide_store::{Store, keys, tenants};
use unslide_stream::admin::Created;

/// Database connections at most: few, because each is a process with megabytes. The api and the
/// builder keep one for listening, the builder one more for the lock of the relay.
const API_CONNECTIONS: u32 = 4;
const BUILDER_CONNECTIONS: u32 = 5;
const INDEXER_CONNECTIONS: u32 = 3;

/// One installation on the embedded servers: all of them, or a cell's part.
pub struct DevPlace {
    /// The folder of its caches and its keys.
    pub folder: PathBuf,
    pub database_url: String,
    pub bucket: String,
    pub topic_prefix: String,
    pub tenant: TenantId,
}

impl DevPlace {
    /// Points every service at its part of the embedded servers.
    fn aim(&self, configs: ServiceConfigs<'_>, embedded: &Embedded) {
        let Embedded { servers, s3 } = embedded;
        let kafka = unslide_stream::Settings {
            topic_prefix: self.topic_prefix.clone(),
            ..unslide_stream::Settings::single_broker(servers.kafka_bootstrap())
        };
        let postgres = |most| {
            let settings = unslide_store::Settings::with_url(self.database_url.as_str());
            unslide_store::Settings { max_connections: most, ..settings }
        };
        let objects = unslide_artifacts::Settings {
            endpoint: Some(s3.url()),
            bucket: self.bucket.clone(),
            access_key: Some(s3.access_key.clone()),
            secret_key: Secret::new(s3.secret_key.clone()),
            path_style: true,
            ..unslide_artifacts::Settings::default()
        };
        let cache = self.folder.join("cache");
        let ServiceConfigs { api, builder, indexer, symbolizer } = configs;
        (api.kafka, api.postgres, api.objects) = (kafka.clone(), postgres(API_CONNECTIONS), objects.clone());
        (builder.kafka, builder.postgres, builder.objects) =
            (kafka.clone(), postgres(BUILDER_CONNECTIONS), objects.clone());
        (indexer.kafka, indexer.postgres, indexer.objects) =
            (kafka.clone(), postgres(INDEXER_CONNECTIONS), objects.clone());
        (symbolizer.kafka, symbolizer.objects) = (kafka, objects);
        builder.builder.work_dir = self.folder.join("work");
        api.api.cache_dir = cache.join("api");
        // No balancer has to notice its end.
        api.api.stop_delay_seconds = 0;
        symbolizer.symbolizer.cache_dir = cache.join("symbolizer");
    }

    /// Points the services here, checks all settings, and makes the tables and the topics. Returns the database, and true if a
    /// topic is new.
    ///
    /// # Errors
    /// Returns what is wrong with the settings, or the failure of a server.
    pub async fn migrate<P: Product>(
        &self,
        product: &mut P,
        host: &Host,
        embedded: &Embedded,
    ) -> Result<(Store, bool), BoxError> {
        self.aim(product.service_configs(), embedded);
        let problems = product.validate_settings();
        if !problems.is_empty() {
            return Err(unslide_runtime::config::Problems(problems).into());
        }
        let (database, kafka) =
            (product.service_configs().api.postgres.clone(), product.service_configs().api.kafka.clone());
        let topics = unslide_stream::admin::create_topics(&kafka);
        let (migrated, topics) = tokio::join!(unslide_store::apply_migrations(&database.url), topics);
        migrated?;
        let new_topics = topics?.iter().any(|(_, created)| *created == Created::New);
        Ok((Store::connect(&database, host.clock.clone()).await?, new_topics))
    }

    /// Returns the tenant and the keys of the folder, and creates them on the first start. The number is that
    /// of the tenant's announcement, if it has to be waited for.
    ///
    /// # Errors
    /// Returns an error if the database fails or the keys cannot be kept.
    pub async fn make_credentials<P: Product>(
        &self,
        product: &P,
        store: &Store,
        new_topics: bool,
    ) -> Result<(Credentials, Option<i64>), BoxError> {
        let (mut credentials, announced) = self.tenant_and_key(store, new_topics).await?;
        if credentials.public_path.is_none() {
            let apps = [PUBLIC_APPS.to_owned()];
            credentials.public_path = product.make_public_path(store, &self.tenant, &apps).await?;
            credentials.write(&self.folder)?;
        }
        Ok((credentials, announced))
    }

    async fn tenant_and_key(
        &self,
        store: &Store,
        new_topics: bool,
    ) -> Result<(Credentials, Option<i64>), BoxError> {
        let announced = create_tenant(store, &self.tenant, None, &tenants::QuotaLimits::default()).await?;
        if announced.is_none() && new_topics {
            // Kafka's data was lost, the database's was not: the workers need its messages again.
            tenants::announce_all(store).await?;
        }
        if let Some(kept) = Credentials::read(&self.folder)
            && keys::authenticate(store, &kept.api_key)
                .await?
                .is_some_and(|principal| principal.tenant == self.tenant)
        {
            return Ok((kept, announced));
        }
        let name = "unslide dev".to_owned();
        let new = keys::NewApiKey { name, scopes: Scope::ALL.to_vec(), app: None, expires_at: None };
        let text = create_key(store, &self.tenant, &new, &Entropy::default().generate_key()?).await?;
        let api_key = text.reveal().to_owned();
        let credentials = Credentials { tenant: self.tenant.to_string(), api_key, public_path: None };
        credentials.write(&self.folder)?;
        Ok((credentials, announced))
    }
}
