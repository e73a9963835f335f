//! Settings of features about the operator's networks to which tenants may have requests sent.

use unslide_runtime::ConfigProblem;
use unslide_runtime::clients::network_of_everything;
use unslide_runtime::egress::AllowedReceivers;

/// Returns the receivers that the networks and ports of a section of the settings allow.
///
/// # Errors
/// Returns the problem of the section, if one of its networks is none.
pub fn parse_receiver_networks(
    section: &str,
    networks: &[String],
    ports: &[u16],
) -> Result<AllowedReceivers, ConfigProblem> {
    AllowedReceivers::from_networks(networks, ports).map_err(|network| {
        let message = format!("{network} is not a network such as 10.0.0.0/8");
        ConfigProblem::new(format!("{section}.networks"), message)
    })
}

/// Returns the warning about a section of the settings whose networks hold every address.
#[must_use]
pub fn warn_of_every_network(section: &str, networks: &[String]) -> Option<ConfigProblem> {
    network_of_everything(networks).map(|network| {
        let message = format!(
            "{network} holds every address: tenants can have requests sent to any server that this service reaches"
        );
        ConfigProblem::new(format!("{section}.networks"), message)
    })
}
