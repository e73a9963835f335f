//! Tools of the Model Context Protocol: an assistant reads groups and reports, and changes groups if it may.
//!
//! `tool_list` names the tools, `tool` turns a call into a request of the API, `answer` turns its answer into text, and `server`
//! speaks the protocol. `endpoint` serves it below `/mcp`, and `command` on standard input and output.

mod answer;
mod arguments;
mod command;
mod endpoint;
mod server;
mod tool;
mod tool_list;

use unslide_api::feature::ApiFeature;
use unslide_feature::Feature;
use unslide_runtime::config::ConfigReader;

pub use command::MCP_COMMANDS;

/// The name of the feature.
pub const NAME: &str = "mcp";

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    let api = ApiFeature { routes: endpoint::routes(), ..ApiFeature::new(NAME, "") };
    Feature::new(NAME, api)
}
