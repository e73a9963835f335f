//! The commands that ask the API or need no server.
//!
//! The program `unslide-client` has these alone, for build machines. The program `unslide` adds the commands of servers and
//! operators to them.

mod command_line;
mod failure;
pub mod features;
mod help;
mod lookups;
mod manual;
mod offline;
mod online;
mod prelude;
mod upload;

pub use command_line::{
    ClientCommand, ProgramCommand, arrange_commands, finish_command, run, run_client_command,
    run_feature_command, run_program_command,
};
pub use failure::{FindExit, exit_code};
pub use help::{add_headings, read_arguments};
pub use online::key;
