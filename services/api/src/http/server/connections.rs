//! The open connections of clients, and the choice of those that are closed if there are too many.
//!
//! Connections without a valid key are limited for each client address, so that idle connections cannot fill
//! the service. When a limit is reached, an open connection is closed for the new one: first those that wait
//! for a request, then those without a key; of each kind, the one in this state for longest. A request with a
//! valid key is never cut off.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use unslide_runtime::clients::Network;

/// All open connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Maximum number of open connections.
    most: usize,
    /// Maximum number of open connections of one network without a key.
    per_network: usize,
    table: Mutex<Table>,
    /// Notified when a connection has ended or can be closed for another.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Entry>,
    tick: u64,
}

#[derive(Debug)]
struct Entry {
    /// `None` for a trusted proxy's connection, unless it has a request of a client that the proxy names.
    network: Option<Network>,
    /// Its last request had a valid key.
    authenticated: bool,
    /// Number of requests with incompletely written responses.
    requests: u32,
    /// Tick at which it was opened, or one of its requests last began or ended.
    since: u64,
    evicted: CancellationToken,
}

impl Entry {
    /// Returns the order for closing, lowest first; `None` if the connection must not be closed.
    fn eviction_rank(&self) -> Option<(bool, bool, u64)> {
        let busy = self.requests > 0;
        (!busy || !self.authenticated).then_some((busy, self.authenticated, self.since))
    }
}

impl Table {
    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Closes one of the connections that `fit`. Returns false if none of them may be closed.
    fn evict_one(&mut self, fit: impl Fn(&u64, &Entry) -> bool) -> bool {
        let fitting = self.open.iter().filter(|(id, entry)| fit(id, entry));
        let first = fitting.filter_map(|(id, entry)| Some((entry.eviction_rank()?, *id))).min();
        let evicted = first.and_then(|(_, id)| self.open.remove(&id));
        evicted.is_some_and(|entry| {
            entry.evicted.cancel();
            true
        })
    }

    /// Counts the connections of a network without a key, except `but`.
    fn without_key(&self, network: Network, but: u64) -> usize {
        let of = |(id, entry): &(&u64, &Entry)| {
            **id != but && entry.network == Some(network) && !entry.authenticated
        };
        self.open.iter().filter(of).count()
    }

    /// Closes connections of a network without a key until a new one is within the limit.
    fn make_way(&mut self, network: Network, id: u64, per_network: usize) {
        while self.without_key(network, id) >= per_network {
            let of = |other: &u64, entry: &Entry| {
                *other != id && entry.network == Some(network) && !entry.authenticated
            };
            if !self.evict_one(of) {
                return;
            }
        }
    }
}

impl Connections {
    /// Limits the connections to `most`, and to `per_network` of one network without a key.
    #[must_use]
    pub fn new(most: usize, per_network: usize) -> Connections {
        let (table, changed) = (Mutex::default(), Notify::new());
        Connections(Arc::new(Shared { most, per_network: per_network.max(1), table, changed }))
    }

    fn lock_table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock()
    }

    /// Opens a connection of a network, or of `None` if the network is not known. Returns `None` if there are
    /// too many and none may be closed.
    #[must_use]
    pub fn open_connection(&self, network: Option<Network>) -> Option<OpenConnection> {
        let mut table = self.lock_table();
        let id = table.next_tick();
        if let Some(network) = network {
            table.make_way(network, id, self.0.per_network);
        }
        if table.open.len() >= self.0.most && !table.evict_one(|_, _| true) {
            return None;
        }
        let evicted = CancellationToken::new();
        let entry = Entry { network, authenticated: false, requests: 0, since: id, evicted: evicted.clone() };
        table.open.insert(id, entry);
        Some(OpenConnection { client: ClientConnection { connections: self.clone(), id }, evicted })
    }

    /// Waits until a connection has ended, or may be closed for another.
    pub async fn wait_for_change(&self) {
        self.0.changed.notified().await;
    }
}

/// An open connection. It counts until it is dropped.
#[derive(Debug)]
pub struct OpenConnection {
    client: ClientConnection,
    evicted: CancellationToken,
}

impl OpenConnection {
    /// Returns the client of the connection.
    #[must_use]
    pub fn client(&self) -> &ClientConnection {
        &self.client
    }

    /// Waits until this connection has to close for another.
    pub async fn wait_for_eviction(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.client.connections.lock_table().open.remove(&self.client.id);
        self.client.connections.0.changed.notify_one();
    }
}

/// The client of a connection. Has no effect after the connection is closed.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    connections: Connections,
    id: u64,
}

impl ClientConnection {
    /// Records that a request begins. On a trusted proxy's connection, each request may be of another client:
    /// it counts for that client's network until it has ended. Returns `None` if too many requests of that
    /// network are without a key.
    #[must_use]
    pub fn begin_request(&self, proxied: Option<Network>) -> Option<ActiveRequest> {
        let mut table = self.connections.lock_table();
        if let Some(network) = proxied
            && table.without_key(network, self.id) >= self.connections.0.per_network
        {
            return None;
        }
        let since = table.next_tick();
        if let Some(entry) = table.open.get_mut(&self.id) {
            entry.requests += 1;
            entry.since = since;
            if proxied.is_some() {
                (entry.network, entry.authenticated) = (proxied, false);
            }
        }
        Some(ActiveRequest { client: self.clone(), proxied: proxied.is_some() })
    }

    /// Returns true while a request is answered.
    #[must_use]
    pub fn has_request(&self) -> bool {
        self.connections.lock_table().open.get(&self.id).is_some_and(|entry| entry.requests > 0)
    }

    /// Records that the request has a valid key.
    pub fn mark_authenticated(&self) {
        if let Some(entry) = self.connections.lock_table().open.get_mut(&self.id) {
            entry.authenticated = true;
        }
    }
}

/// A request with an incompletely written response. It counts until it is dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    client: ClientConnection,
    proxied: bool,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut table = self.client.connections.lock_table();
        let since = table.next_tick();
        if let Some(entry) = table.open.get_mut(&self.client.id) {
            entry.requests = entry.requests.saturating_sub(1);
            entry.since = since;
            if self.proxied {
                entry.network = None;
            }
        }
        drop(table);
        self.client.connections.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Option<Network> {
        Some(Network::from_address([10, 0, 0, last].into()))
    }

    fn is_evicted(open: &OpenConnection) -> bool {
        open.evicted.is_cancelled()
    }

    #[test]
    fn one_address_closes_its_own_connections_without_a_key_and_no_others() {
        let connections = Connections::new(100, 2);
        let open = |last| connections.open_connection(network(last)).unwrap();
        let (with_key, other) = (open(1), open(2));
        with_key.client().mark_authenticated();
        let (oldest, asking, newest) = (open(1), open(1), open(1));
        assert!(is_evicted(&oldest) && !is_evicted(&asking));
        // A connection with a request that is answered stays rather than one that waits for a request.
        let request = asking.client().begin_request(None).unwrap();
        let next = open(1);
        assert!(is_evicted(&newest) && !is_evicted(&asking));
        drop(request);
        for open in [&with_key, &other, &asking, &next] {
            assert!(!is_evicted(open));
        }
    }

    #[test]
    fn where_there_are_too_many_those_that_wait_for_a_request_go_first() {
        let connections = Connections::new(4, 100);
        let open = || connections.open_connection(None).unwrap();
        let (idle_key, busy_key, busy, idle) = (open(), open(), open(), open());
        idle_key.client().mark_authenticated();
        busy_key.client().mark_authenticated();
        let requests = [&busy_key, &busy].map(|open| open.client().begin_request(None).unwrap());
        let mut later = Vec::new();
        for expected in [&idle, &idle_key, &busy] {
            assert!(!is_evicted(expected));
            let new = open();
            new.client().mark_authenticated();
            later.push((new.client().begin_request(None).unwrap(), new));
            assert!(is_evicted(expected));
        }
        // Everything that is open now answers somebody with a key.
        assert!(connections.open_connection(None).is_none());
        drop(later.pop());
        assert!(connections.open_connection(None).is_some() && !is_evicted(&busy_key));
        drop(requests);
    }

    #[test]
    fn requests_through_a_proxy_count_for_their_clients_until_they_have_a_key() {
        let connections = Connections::new(100, 2);
        let proxied: Vec<_> = (0..4).map(|_| connections.open_connection(None).unwrap()).collect();
        let ask = |at: usize, last| proxied[at].client().begin_request(network(last));
        let (_first, second) = (ask(0, 1).unwrap(), ask(1, 1).unwrap());
        assert!(ask(2, 1).is_none() && ask(2, 2).is_some());
        proxied[1].client().mark_authenticated();
        let third = ask(2, 1).unwrap();
        assert!(ask(3, 1).is_none());
        // Ended, a proxy's connection is of no client.
        drop((second, third));
        assert!(ask(3, 1).is_some());
        assert!(proxied.iter().all(|open| !is_evicted(open)));
    }
}
