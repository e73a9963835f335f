//! The program for build machines: `unslide` with the commands that ask the API or need no server.

use std::process::ExitCode;

fn main() -> ExitCode {
    unslide_client::run()
}
