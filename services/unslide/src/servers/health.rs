//! `unslide health`: is the service of this machine ready? For the health checks of containers.

use crate::boot::{self, Process};
use crate::configuration::Configured;
use crate::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use unslide_runtime::config::Sources;

/// As long as a service asks its dependencies at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Arguments of `unslide health`: the configuration of the service.
#[derive(Args)]
#[command(after_help = "The exit code is only 0 or 1: Docker reserves other codes of health checks.")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
}

/// Asks the admin port, and prints the parts that are not ready.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut reader = Sources::process(arguments.configured.config.as_deref()).read();
    let process: Process = reader.whole();
    let address = reachable(process.admin.listen);
    let url = format!("http://{address}/readyz");
    // reqwest wants one, though nothing here is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    boot::block_on(async move {
        let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build()?;
        let answer = client.get(&url).send().await;
        let answer =
            answer.map_err(|error| format!("no service answers at {url} (admin.listen): {error}"))?;
        let ready = answer.status().is_success();
        if !ready {
            Console::get().say_lines(answer.text().await.unwrap_or_default().trim_end());
        }
        Ok(if ready { Exit::Ready } else { Exit::Failed })
    })
}

/// Returns the address at which a listener of this machine is reached. For one that listens everywhere it is
/// at loopback.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let address = match listen.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(address, listen.port())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn a_listener_on_every_address_is_asked_at_loopback() {
        let asked = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(asked("0.0.0.0:9464"), "127.0.0.1:9464");
        assert_eq!(asked("[::]:9464"), "[::1]:9464");
        assert_eq!(asked("10.0.0.7:1"), "10.0.0.7:1");
    }
}
