//! Clients and their connections: the address of each, also behind proxies, and the network that shares limits with it.

mod connections;
mod network;
mod proxies;

pub use connections::{ConnectionTasks, accept_connection};
pub use network::Network;
pub use proxies::{TrustedProxies, network_of_everything};
