//! Ports for servers that come and go.

use crate::error::{AtPath, Error};
use crate::random::random_bytes;
use parking_lot::Mutex;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that Linux gives to connections on their own (from 32,768 on), so that none of these takes
/// the port of a server while it is started, or started again.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// Ports that are tried before any will do.
const TRIES: usize = 64;

/// Returns a port of the loopback interface that is free now and that this function did not return before. An
/// earlier caller may not listen on its port yet.
///
/// # Errors
/// Returns an error if there is none.
pub fn free_port() -> Result<u16, Error> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let found = some_port(loopback)?;
    let found = found.map_err(|source| Error::Port { address: loopback.to_string(), source });
    Ok(found?.local_addr().at("listen on", Path::new("a port"))?.port())
}

/// Listens on the wanted address, else on the port that is written in `kept` if it is free, else on a free
/// one. Writes the port to `kept`, so that clients find a restarted server at the same port.
pub(crate) fn listen(wanted: Option<SocketAddr>, kept: &Path) -> Result<TcpListener, Error> {
    let wanted = wanted.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let before = fs::read_to_string(kept).ok().and_then(|text| text.trim().parse().ok());
    let taken = match before {
        _ if wanted.port() != 0 => TcpListener::bind(wanted),
        None => some_port(wanted.ip())?,
        Some(port) => match TcpListener::bind(SocketAddr::new(wanted.ip(), port)) {
            Ok(listener) => Ok(listener),
            Err(_) => some_port(wanted.ip())?,
        },
    };
    let taken = taken.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = taken.map_err(|source| Error::Port { address: wanted.to_string(), source })?;
    fs::write(kept, format!("{}\n", address.port())).at("write", kept)?;
    Ok(listener)
}

/// Returns the address of [`listen`], closed again for a server that is a process of its own.
pub(crate) fn address(wanted: Option<SocketAddr>, kept: &Path) -> Result<SocketAddr, Error> {
    listen(wanted, kept)?.local_addr().at("listen on", kept)
}

/// Tries one port after the other, from a random one on.
fn some_port(ip: IpAddr) -> Result<std::io::Result<TcpListener>, Error> {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let random = AtomicU16::new(u16::from_le_bytes(random_bytes::<2>()?));
    let next = NEXT.get_or_init(|| random);
    for _ in 0..TRIES {
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT;
        if let Ok(listener) = TcpListener::bind((ip, port))
            && reserve_port(port)
        {
            return Ok(Ok(listener));
        }
    }
    Ok(TcpListener::bind((ip, 0)))
}

/// Keeps a port for this process until it ends, so that no other one gets it before its server listens, or while that
/// server is started again. Returns false if another process has it. No server here uses UDP: a socket of the same number
/// is the reservation, which the system ends with the process.
fn reserve_port(port: u16) -> bool {
    static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { return false };
    RESERVED.lock().push(socket);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let given: Vec<u16> = (0..500).map(|_| free_port().unwrap()).collect();
        let distinct: std::collections::BTreeSet<u16> = given.iter().copied().collect();
        assert_eq!(distinct.len(), given.len(), "none of them listens yet");
    }

    #[test]
    fn a_port_is_kept_while_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("port");
        let first = address(None, &kept).unwrap();
        assert!((FIRST..FIRST + COUNT).contains(&first.port()), "none that a connection gets: {first}");
        assert_eq!(address(None, &kept).unwrap(), first);
        let taken = TcpListener::bind(first).unwrap();
        let other = address(None, &kept).unwrap();
        assert_ne!(other.port(), taken.local_addr().unwrap().port());
        assert!(matches!(address(Some(first), &kept), Err(Error::Port { .. })));
    }
}
