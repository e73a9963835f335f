//! Extension of the command line by features.

use crate::{BoxError, Client, Outcome};
use clap::ArgMatches;
use serde_json::Value;
use std::pin::Pin;
use unslide_model::DebugId;
use unslide_symbolicate::SymbolizerFeature;

/// Everything that one feature adds to the command line. No part of it reads the configuration of services.
#[derive(Clone, Copy)]
pub struct ClientFeature {
    /// The name of the feature.
    pub name: &'static str,
    /// Its subcommands.
    pub commands: &'static [FeatureCommand],
    /// Adds a line to the output of commands of the core.
    pub add_line: Option<AddLine>,
    /// Its additions to symbolication, for commands without a server. They are those of the services.
    pub symbolizer: SymbolizerFeature,
}

impl ClientFeature {
    /// Makes a feature that adds nothing.
    #[must_use]
    pub const fn new(name: &'static str) -> ClientFeature {
        ClientFeature { name, commands: &[], add_line: None, symbolizer: SymbolizerFeature::new(name) }
    }

    /// Makes a feature that adds to symbolication alone.
    #[must_use]
    pub const fn with_symbolizer(symbolizer: SymbolizerFeature) -> ClientFeature {
        ClientFeature { symbolizer, ..ClientFeature::new(symbolizer.name) }
    }
}

/// A subcommand that a feature adds to the command line.
#[derive(Clone, Copy)]
pub struct FeatureCommand {
    /// The subcommand after which `unslide --help` lists it: `release show` for one of `release`.
    pub follows: &'static str,
    /// Returns its name, arguments and help.
    pub command: fn() -> clap::Command,
    /// Runs it with its parsed arguments.
    pub run: fn(&ArgMatches) -> Outcome,
    /// The kind of keys that it works with, if the feature has its own: `unslide key` makes, lists and revokes them.
    pub key_kind: Option<ClientKeyKind>,
}

/// A kind of keys, as the API makes and lists them.
#[derive(Clone, Copy, Debug)]
pub struct ClientKeyKind {
    /// Its name after `--kind`.
    pub name: &'static str,
    /// The path of its list.
    pub path: &'static str,
    /// True if apps carry such a key: it names its apps, never ends, its text can be read again, and its state closes it.
    pub is_public: bool,
}

/// A command of the core that features add lines to.
#[derive(Clone, Copy, Debug)]
pub enum CoreCommand<'c> {
    /// `unslide doctor`, with a key that may read reports. A feature only reads.
    Doctor,
    /// `unslide demo --traffic`, before it sends reports. A feature turns itself on for them, and says so.
    DemoBegin(&'c [DemoSymbols<'c>]),
    /// `unslide demo --traffic`. A feature sends data of the run, and says what it sent.
    Demo(DemoRun<'c>),
    /// `unslide upload`, once symbols are sent. A feature keeps the commit, and says that it did.
    Upload(UploadedBuilds<'c>),
}

/// Builds of which `unslide upload` has sent symbols, and the commit that they were made of.
#[derive(Clone, Copy, Debug)]
pub struct UploadedBuilds<'u> {
    pub debug_ids: &'u [DebugId],
    pub commit: &'u SourceCommit,
}

/// A commit that builds are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceCommit {
    /// Its hexadecimal digits.
    pub commit: String,
    /// The address of its repository, without credentials.
    pub repository: Option<String>,
    pub pull_request: Option<u32>,
    /// The folder of the checkout on this machine.
    pub source_root: Option<String>,
}

/// Builds of one program of `unslide demo --traffic` with symbols, and its source files.
#[derive(Clone, Copy, Debug)]
pub struct DemoSymbols<'d> {
    pub debug_ids: &'d [DebugId],
    /// The paths in the symbols, and the texts.
    pub sources: &'d [(&'static str, &'static str)],
}

/// A line for the output of a command; `None` if the feature has nothing to say.
pub type AddedLine<'c> = Pin<Box<dyn Future<Output = Result<Option<String>, BoxError>> + Send + 'c>>;
/// See [`ClientFeature::add_line`].
pub type AddLine = for<'c> fn(&'c Client, CoreCommand<'c>) -> AddedLine<'c>;

/// The run of an app that the data of `unslide demo --traffic` belongs to.
#[derive(Clone, Copy, Debug)]
pub struct DemoRun<'d> {
    /// The app.
    pub app: &'d str,
    /// The app's version.
    pub version: &'d str,
    /// The id of the run.
    pub session_id: &'d str,
    /// A KSCrash report of the same build.
    pub report: &'d Value,
}
