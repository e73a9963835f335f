//! The settings of the feature.

use crate::sealing::{AppleKeySealer, SEALING_KEY};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;

/// The address of Apple's API.
const APPLE_URL: &str = "https://api.appstoreconnect.apple.com";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as the feature needs it.
    pub api: TestFlightApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct TestFlightApiSettings {
    /// Settings of the TestFlight inbox.
    pub testflight: TestFlightSettings,
}

/// The section `api.testflight` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct TestFlightSettings {
    /// The key that encrypts the App Store Connect keys of tenants in the database: 32 bytes in base64, as `openssl rand -base64 32`
    /// prints. Every process of the api needs the same. Without it no tenant can set a key. With another one, tenants set theirs again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// The address of Apple's API. A test names a server of its own.
    #[serde(skip)]
    pub apple_url: String,
    /// The network and port of that server, beside the internet.
    #[serde(skip)]
    pub apple_network: Option<(String, u16)>,
    /// Milliseconds between two looks at which tenants are due.
    #[serde(skip)]
    pub look_millis: u64,
}

impl Default for TestFlightSettings {
    fn default() -> TestFlightSettings {
        TestFlightSettings {
            sealing_key: Secret::default(),
            apple_url: APPLE_URL.to_owned(),
            apple_network: None,
            look_millis: 5_000,
        }
    }
}

impl TestFlightSettings {
    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let wrong = AppleKeySealer::from_setting(&self.sealing_key).err();
        wrong.map(|message| ConfigProblem::new(SEALING_KEY, message)).into_iter().collect()
    }
}
