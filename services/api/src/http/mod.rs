//! Connections, and the layers that all requests and responses pass through.

pub mod answers;
pub mod arriving_body;
pub mod compress;
pub mod documents;
pub mod kept_body;
mod linger;
pub mod observe;
pub mod question;
pub mod server;
pub mod spans;
pub mod time_limit;
pub mod trace;
