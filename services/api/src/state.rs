//! The state of the operations, in parts. An operation takes the part that it uses.

use crate::http::observe::RequestObserver;
use crate::limits::capacity::Capacity;
use crate::lists::Lists;
use crate::panels::Panels;
use crate::reports::app_intake::AppIntakeSlot;
use crate::reports::symbolication::Symbolication;
use crate::requests::broker::Broker;
use crate::requests::keys::Keys;
use crate::storage::Storage;
use crate::storage::claims::TenantClaims;
use axum::extract::FromRef;
use std::sync::Arc;
use unslide_runtime::Shutdown;

/// The state of the api. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<ApiParts>);

/// The parts of an [`Api`].
pub struct ApiParts {
    pub capacity: Arc<Capacity>,
    pub storage: Arc<Storage>,
    pub keys: Arc<Keys>,
    pub symbolication: Arc<Symbolication>,
    pub broker: Arc<Broker>,
    pub lists: Arc<Lists>,
    pub panels: Arc<Panels>,
    pub app_intake: Arc<AppIntakeSlot>,
    pub claims: Arc<TenantClaims>,
    pub observer: Arc<RequestObserver>,
    /// Signals when the service stops.
    pub shutdown: Shutdown,
}

impl Api {
    #[must_use]
    pub fn new(parts: ApiParts) -> Api {
        Api(Arc::new(parts))
    }

    #[must_use]
    pub fn parts(&self) -> &ApiParts {
        &self.0
    }
}

macro_rules! parts {
    ($($field:ident: $part:ty),+) => {
        $(
            impl FromRef<Api> for $part {
                fn from_ref(api: &Api) -> $part {
                    api.0.$field.clone()
                }
            }
        )+
    };
}
parts!(
    capacity: Arc<Capacity>,
    storage: Arc<Storage>,
    keys: Arc<Keys>,
    symbolication: Arc<Symbolication>,
    broker: Arc<Broker>,
    panels: Arc<Panels>,
    lists: Arc<Lists>,
    claims: Arc<TenantClaims>,
    shutdown: Shutdown
);
