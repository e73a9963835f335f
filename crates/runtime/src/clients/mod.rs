//! Clients behind proxies: the address of each, and the network that shares limits with it.

mod network;
mod proxies;

pub use network::Network;
pub use proxies::{TrustedProxies, network_of_everything};
