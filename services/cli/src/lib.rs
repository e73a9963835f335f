//! Shared parts of commands: the client of the API, output, exit codes, and the files and symbols of this machine.
//!
//! The binary and the features build their commands on it. A [`ClientFeature`] is what a feature adds to them.

#![expect(missing_docs, reason = "the fields and variants of a service say what they are by their names")]

mod address;
mod api;
mod command;
mod configured;
mod entry_id;
mod erasure;
mod exit;
mod failure;
mod feature;
mod file_kind;
pub mod input;
pub mod listing;
mod mapped;
mod output;
pub mod quantity;
pub mod symbols;

pub use address::reachable_address;
pub use api::{
    Accepted, AnsweringServer, ApiLogin, ApiProfile, ApiProfileError, ApiServer, Begun, BuiltObject, Client,
    ClientError, DEFAULT_PROFILE, DEFAULT_URL, FormContent, FormFile, KEY_VARIABLE, KeylessAnswer,
    LoginSource, PROFILE_VARIABLE, ProfileFile, SkippedFile, URL_VARIABLE, Upload, UploadBody, check_address,
    check_name, post_without_key,
};
pub use command::{SwitchPosition, block_on, print_trial, run_switch};
pub use configured::Configured;
pub use entry_id::parse_entry_id;
pub use erasure::{ErasureArguments, SentErasure, describe_removed, run_erasure};
pub use exit::Exit;
pub use failure::{BoxError, CommandError, Outcome, check_paths};
pub use feature::{
    AddLine, AddedLine, ClientFeature, ClientKeyKind, CoreCommand, DemoRun, DemoSymbols, FeatureCommand,
    SourceCommit, UploadedBuilds,
};
pub use file_kind::{describe_file, file_kind, is_archive, starts_as_mach_o, starts_as_source_map};
pub use mapped::{map_path, map_unpacked};
pub use output::{
    Console, Table, can_ask, confirm_action, describe_age, json_text, print_facts, read_answer, read_secret,
};
