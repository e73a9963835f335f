//! `unslide health`: is the service of this machine ready? For the health checks of containers.

use crate::boot::Process;
use crate::configuration::Configured;
use crate::prelude::*;
use std::time::Duration;
use unslide_cli::reachable_address;
use unslide_runtime::config::Sources;

/// As long as a service asks its dependencies at most.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of `unslide health`: the configuration of the service.
#[derive(Args)]
#[command(after_help = "The exit code is only 0 or 1: Docker reserves other codes of health checks.")]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
}

/// Asks the admin port, and prints the parts that are not ready.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut reader = Sources::from_process(arguments.configured.config.as_deref()).read();
    let process: Process = reader.read_whole();
    let address = reachable_address(process.admin.listen);
    let url = format!("http://{address}/readyz");
    // reqwest wants one, though nothing here is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    block_on(async move {
        let client = reqwest::Client::builder().timeout(HEALTH_TIMEOUT).no_proxy().build()?;
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
