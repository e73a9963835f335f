//! Which address a client comes from: the socket's peer, or what a trusted proxy says of it, in
//! `X-Forwarded-For` or in the header of the PROXY protocol.

use http::HeaderMap;
use ipnet::IpNet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// What counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address, which is what a
/// subscriber gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpAddr);

impl Network {
    /// The network of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => Network(address.into()),
            IpAddr::V6(address) => Network(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()),
        }
    }
}

/// The networks whose word on their clients counts.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// These networks, in CIDR notation.
    ///
    /// # Errors
    /// The text that is not a network.
    pub fn read(networks: &[impl AsRef<str>]) -> Result<TrustedProxies, String> {
        let network = |text: &str| text.trim().parse::<IpNet>().map_err(|_| text.to_owned());
        let networks: Vec<IpNet> =
            networks.iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(TrustedProxies(networks.into()))
    }

    /// True for an address of one of them.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client that `X-Forwarded-For` names: the right-most address that is no trusted proxy's. What
    /// stands left of it is the client's own word.
    #[must_use]
    pub fn forwarded_for(&self, headers: &HeaderMap) -> Option<Network> {
        let values = headers.get_all("x-forwarded-for").iter().rev();
        let entries = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        for entry in entries.map(str::trim) {
            let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
            let address = bare.parse().or_else(|_| entry.parse::<SocketAddr>().map(|address| address.ip()));
            let Ok(address) = address else { return None };
            if !self.trusts(address) {
                return Some(Network::of(address));
            }
        }
        None
    }
}

/// Longer headers of version 2 than this carry nothing that is of use here.
const LONGEST: u16 = 4_096;
/// The longest header of version 1.
const LONGEST_LINE: usize = 107;
const LINE: &[u8] = b"PROXY ";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Between two looks at a header of which only a part has come.
const LOOK: Duration = Duration::from_millis(5);

/// Takes the header of the PROXY protocol (<https://www.haproxy.org/download/1.8/doc/proxy-protocol.txt>,
/// versions 1 and 2) from a trusted proxy's connection, and gives the address in it. `None` where the
/// connection does not begin with one, or where that names no address.
///
/// # Errors
/// Where the header is damaged or the connection ends.
pub async fn proxy_header(stream: &mut TcpStream) -> io::Result<Option<IpAddr>> {
    let mut start = [0; SIGNATURE.len()];
    loop {
        let read = stream.peek(&mut start).await?;
        let begins = |with: &[u8]| {
            let length = read.min(with.len());
            start[..length] == with[..length]
        };
        match (begins(LINE), begins(SIGNATURE)) {
            _ if read == 0 => return Ok(None),
            (true, _) if read >= LINE.len() => return line(stream).await,
            (_, true) if read >= SIGNATURE.len() => return binary(stream).await,
            (false, false) => return Ok(None),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "not a header of the PROXY protocol")
}

/// `PROXY TCP4 192.0.2.1 192.0.2.2 40000 443`, up to the line's end.
async fn line(stream: &mut TcpStream) -> io::Result<Option<IpAddr>> {
    let mut line = Vec::with_capacity(LONGEST_LINE);
    while !line.ends_with(b"\r\n") {
        if line.len() == LONGEST_LINE {
            return Err(damaged());
        }
        line.push(stream.read_u8().await?);
    }
    let mut words = std::str::from_utf8(&line).map_err(|_| damaged())?.split_ascii_whitespace().skip(1);
    match (words.next(), words.next()) {
        (Some("TCP4" | "TCP6"), Some(source)) => source.parse().map(Some).map_err(|_| damaged()),
        (Some("UNKNOWN"), _) => Ok(None),
        _ => Err(damaged()),
    }
}

async fn binary(stream: &mut TcpStream) -> io::Result<Option<IpAddr>> {
    let mut head = [0; SIGNATURE.len()];
    stream.read_exact(&mut head).await?;
    let (command, family) = (stream.read_u8().await?, stream.read_u8().await?);
    let length = stream.read_u16().await?;
    if command >> 4 != 2 || length > LONGEST {
        return Err(damaged());
    }
    let mut rest = vec![0; length.into()];
    stream.read_exact(&mut rest).await?;
    // 0 is the proxy's own connection, such as a health check; 1 is a client's.
    match (command & 0xf, family >> 4) {
        (0, _) => Ok(None),
        (1, 1) => source::<4>(&rest).map(|octets| Some(Ipv4Addr::from(octets).into())),
        (1, 2) => source::<16>(&rest).map(|octets| Some(Ipv6Addr::from(octets).into())),
        (1, _) => Ok(None),
        _ => Err(damaged()),
    }
}

fn source<const N: usize>(addresses: &[u8]) -> io::Result<[u8; N]> {
    addresses.first_chunk().copied().ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn proxies() -> TrustedProxies {
        TrustedProxies::read(&["10.0.0.0/8", "fd00::/8"]).unwrap()
    }

    #[test]
    fn ipv6_counts_by_64_bits_and_ipv4_by_address() {
        let of = |text| Network::of(address(text));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert!(proxies().trusts(address("::ffff:10.1.2.3")) && !proxies().trusts(address("11.0.0.1")));
    }

    #[test]
    fn the_rightmost_address_that_is_no_proxys_is_the_client() {
        let named = |values: &[&'static str]| {
            let value = |value: &&'static str| {
                (http::HeaderName::from_static("x-forwarded-for"), http::HeaderValue::from_static(value))
            };
            proxies().forwarded_for(&values.iter().map(value).collect())
        };
        let of = |text| Some(Network::of(address(text)));
        assert_eq!(named(&["192.0.2.1"]), of("192.0.2.1"));
        assert_eq!(named(&["1.2.3.4, 192.0.2.1, 10.0.0.7"]), of("192.0.2.1"));
        assert_eq!(named(&["1.2.3.4", "192.0.2.1,fd00::1"]), of("192.0.2.1"));
        assert_eq!(named(&["192.0.2.1:5000"]), of("192.0.2.1"));
        assert_eq!(named(&["[2001:db8::1]:443"]), of("2001:db8::"));
        for none in [&[][..], &["10.0.0.1"], &["192.0.2.1, unknown"], &[""]] {
            assert_eq!(named(none), None, "{none:?}");
        }
    }

    /// What the header says, and what is left to be read.
    async fn read(pieces: &[&[u8]]) -> (Result<Option<IpAddr>, ErrorKind>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let writing = async {
            client.set_nodelay(true).unwrap();
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(client);
        };
        let (named, ()) = tokio::join!(proxy_header(&mut server), writing);
        let mut left = Vec::new();
        server.read_to_end(&mut left).await.unwrap();
        (named.map_err(|error| error.kind()), left)
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[0x20 | command, family], &length, rest].concat()
    }

    #[tokio::test]
    async fn headers_of_both_versions_are_taken_and_nothing_else_is() {
        let request = &b"GET / HTTP/1.1\r\n"[..];
        let client = Ok(Some(address("192.0.2.1")));
        let line = &b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 443\r\n"[..];
        assert_eq!(read(&[line, request]).await, (client, request.to_vec()));
        let (begin, end) = line.split_at(3);
        assert_eq!(read(&[begin, end, request]).await, (client, request.to_vec()));
        let four = version_2(1, 0x11, &[192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2, 4, 0, 0]);
        assert_eq!(read(&[&four, request]).await, (client, request.to_vec()));
        let (begin, end) = four.split_at(7);
        assert_eq!(read(&[begin, end, request]).await, (client, request.to_vec()));
        let mut addresses = [0; 36];
        addresses[..16].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        let six = version_2(1, 0x21, &addresses);
        assert_eq!(read(&[&six]).await.0, Ok(Some(address("2001:db8::1"))));
        for none in [&version_2(0, 0, &[])[..], b"PROXY UNKNOWN\r\n", &version_2(1, 0x31, &[0; 216])] {
            assert_eq!(read(&[none, request]).await, (Ok(None), request.to_vec()));
        }
        for other in [request, b"POST / HTTP/1.1\r\n", b"\r\nGET / HTTP/1.1\r\n"] {
            let (named, left) = tokio::time::timeout(Duration::from_secs(60), read(&[other])).await.unwrap();
            assert_eq!((named, left.as_slice()), (Ok(None), other));
        }
        let long = [b"PROXY TCP4 ", &[b'1'; 200][..]].concat();
        for damaged in
            [&long[..], b"PROXY TCP4 here\r\n", &version_2(1, 0x11, &[0; 3]), &version_2(7, 0x11, &[0; 12])]
        {
            assert_eq!(read(&[damaged]).await.0, Err(ErrorKind::InvalidData));
        }
        assert_eq!(read(&[&four[..20]]).await.0, Err(ErrorKind::UnexpectedEof));
    }
}
