//! Tools of the Model Context Protocol: an assistant reads groups and reports, and changes groups if it may.
//!
//! `tool_list` names the tools, `tool` turns a call into a request of the API, `answer` and `figures` turn its answer into text, `evidence`
//! joins the answers about one bug, and `server` speaks the protocol, over any transport.

mod answer;
mod arguments;
mod evidence;
mod fenced_text;
mod figures;
mod server;
mod tool;
mod tool_list;

pub use server::{ApiAnswer, CallApi, McpServer};
pub use tool::ApiRequest;
