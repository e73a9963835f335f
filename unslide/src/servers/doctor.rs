//! The part of `unslide doctor` that reaches the servers of the services.

use crate::configuration::{self, Configured};
use crate::prelude::*;
use crate::servers::connection_check;

const HELP: &str = "\
It changes nothing but an object of its own in object storage. With a configuration of the services (--config, or variables
UNSLIDE_SECTION__KEY) it also tries Kafka with its topics, PostgreSQL and object storage, as `unslide config check --connect` does.

Examples:
  unslide doctor
  unslide doctor --profile staging
  unslide doctor --scope symbols:write
  unslide doctor --config unslide.toml";

/// Adds the option for the configuration to the command that tries the API.
pub fn extend_command(doctor: clap::Command) -> clap::Command {
    let doctor = doctor
        .about("Try whether this machine can use the API with its key, and the servers of the services");
    Configured::extend_command(doctor).after_help(HELP)
}

/// Tries the servers of the services, if their configuration is here. `exit` is the code for the API, which comes first.
pub fn check_servers(exit: Exit, configured: &Configured) -> Outcome {
    let servers = try_servers(configured)?;
    Ok(if exit == Exit::Ready { servers } else { exit })
}

fn try_servers(configured: &Configured) -> Outcome {
    if !configured.is_given() {
        say!(
            "not tried: Kafka, PostgreSQL and object storage, because --config names no configuration of the services"
        );
        return Ok(Exit::Ready);
    }
    match configuration::load_configuration(configured, None) {
        Ok(configuration) => connection_check::run(&configuration, None),
        Err(problems) => {
            for problem in &problems.0 {
                say!("missing: {problem}");
            }
            Ok(Exit::Usage)
        }
    }
}
