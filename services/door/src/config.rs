//! The door's configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use unslide_runtime::ConfigProblem;
use unslide_runtime::clients::{TrustedProxies, network_of_everything};
use unslide_store::cells::CellSettings;

/// The door's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `door`, for this service alone.
    pub door: Settings,
    /// The directory of cells.
    pub cells: CellSettings,
    /// The database of this installation. The door does not connect to it: only its setting for logins counts for the directory.
    pub postgres: unslide_store::Settings,
}

/// The section `door` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Address of the door's HTTP interface; port 0 takes any free one.
    pub listen: SocketAddr,
    /// How long the door serves requests after SIGTERM, while `/readyz` reports it as not ready. Longer than a load balancer takes
    /// to notice.
    #[serde(rename = "stop_delay", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub stop_delay_seconds: u64,
    /// Networks of proxies in front of the door, such as `10.0.0.0/8`. Their `X-Forwarded-For` names a request's client. The
    /// `api.trusted_proxies` of each cell have to name the addresses of doors.
    pub trusted_proxies: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            stop_delay_seconds: 5,
            trusted_proxies: Vec::new(),
        }
    }
}

impl Settings {
    /// Returns all errors of the section.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let networks = TrustedProxies::from_networks(&self.trusted_proxies).err();
        let describe = |network| {
            ConfigProblem::new(
                "door.trusted_proxies",
                format!("{network} is not a network such as 10.0.0.0/8"),
            )
        };
        networks.map(describe).into_iter().collect()
    }

    /// Returns settings that are allowed and unsafe.
    #[must_use]
    pub fn find_insecure(&self) -> Option<ConfigProblem> {
        let network = network_of_everything(&self.trusted_proxies)?;
        let message = format!("{network} holds every address: any client can name another client's address");
        Some(ConfigProblem::new("door.trusted_proxies", message))
    }
}

impl Config {
    /// Returns all errors of the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let mut problems = self.door.validate();
        // A door belongs to no cell.
        let of_cells = self.cells.problems().into_iter().filter(|(field, _)| *field != "name");
        problems.extend(ConfigProblem::in_section("cells", of_cells));
        if !self.cells.is_on() && problems.iter().all(|problem| problem.key != "cells.directory") {
            problems.push(ConfigProblem::new(
                "cells.directory",
                "is not set: a door passes requests on to the cells in it",
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::Secret;

    #[test]
    fn a_door_needs_a_directory_and_networks_that_are_some() {
        let keys = |config: &Config| config.validate().into_iter().map(|p| p.key).collect::<Vec<_>>();
        let mut config = Config::default();
        config.door.trusted_proxies = vec!["10.0.0.0/33".to_owned()];
        assert_eq!(keys(&config), ["door.trusted_proxies", "cells.directory"]);
        config.door.trusted_proxies = vec!["0.0.0.0/0".to_owned()];
        config.cells.directory = Secret::new("postgres://u@h/directory");
        assert_eq!(keys(&config), [""; 0]);
        assert!(config.door.find_insecure().is_some());
    }
}
