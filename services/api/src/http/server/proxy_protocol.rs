//! The PROXY protocol, versions 1 and 2: before the first request, a trusted proxy of layer 4 names the client of the
//! connection that it passes on. See <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.

use bytes::{Bytes, BytesMut};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How a line of version 1 begins.
const LINE: &[u8] = b"PROXY ";
/// Bytes of the longest line, with its end.
const LONGEST_LINE: usize = 107;
/// How version 2 begins.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before the addresses.
const FIXED: usize = 16;
/// Bytes of addresses, and of what a proxy says beside them.
const MOST_BYTES: usize = 2 << 10;

/// What a proxy says of a connection before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client; `None` for a connection of the proxy's own, and for one with a client without an address.
    pub client: Option<IpAddr>,
}

/// What a connection begins with.
#[derive(Debug, PartialEq, Eq)]
enum Beginning {
    /// Too few bytes to say.
    Unknown,
    /// No header.
    Request,
    /// A header, with its length in bytes.
    Header(usize, ProxyHeader),
    /// A header that cannot be read.
    Damaged,
}

/// Reads the header where a connection begins with one. Returns it, and the bytes that were read behind it.
///
/// # Errors
/// Where the connection fails, or its header cannot be read.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Option<ProxyHeader>, Bytes)> {
    let mut read = BytesMut::with_capacity(FIXED + MOST_BYTES);
    loop {
        match beginning(&read) {
            Beginning::Unknown if stream.read_buf(&mut read).await? > 0 => {}
            // The client has closed it, or asks at once.
            Beginning::Unknown | Beginning::Request => return Ok((None, read.freeze())),
            Beginning::Header(bytes, header) => {
                return Ok((Some(header), read.split_off(bytes).freeze()));
            }
            Beginning::Damaged => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// No request begins like a header of either version.
fn beginning(bytes: &[u8]) -> Beginning {
    let may_be = |mark: &[u8]| bytes.starts_with(mark) || mark.starts_with(bytes);
    if may_be(LINE) {
        line(bytes)
    } else if may_be(SIGNATURE) {
        binary(bytes)
    } else {
        Beginning::Request
    }
}

/// Version 1, such as `PROXY TCP4 192.0.2.1 10.0.0.1 50000 443`.
fn line(bytes: &[u8]) -> Beginning {
    let first = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    let Some(end) = first.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LONGEST_LINE { Beginning::Unknown } else { Beginning::Damaged };
    };
    let text = first.get(..end).and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let mut words = text.split(' ').skip(1);
    let client = match (words.next(), words.next()) {
        (Some("UNKNOWN"), _) => Ok(None),
        (Some("TCP4" | "TCP6"), Some(client)) => client.parse().map(Some).map_err(drop),
        _ => Err(()),
    };
    client.map_or(Beginning::Damaged, |client| Beginning::Header(end + 2, ProxyHeader { client }))
}

/// Version 2: a signature, a command, a family of addresses and a length, all as bytes.
fn binary(bytes: &[u8]) -> Beginning {
    let Some((head, rest)) = bytes.split_first_chunk::<FIXED>() else { return Beginning::Unknown };
    let [.., command, family, high, low] = *head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MOST_BYTES {
        return Beginning::Damaged;
    }
    let Some(addresses) = rest.get(..length) else { return Beginning::Unknown };
    let client = match (command, family) {
        // The proxy itself asks for something.
        (0x20, _) => Ok(None),
        (0x21, 0x11) => addresses.first_chunk::<4>().map(|source| Some((*source).into())).ok_or(()),
        (0x21, 0x21) => addresses.first_chunk::<16>().map(|source| Some((*source).into())).ok_or(()),
        (0x21, _) => Ok(None),
        _ => Err(()),
    };
    client.map_or(Beginning::Damaged, |client| Beginning::Header(FIXED + length, ProxyHeader { client }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: [u8; 4] = [192, 0, 2, 1];

    fn version_2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &length, addresses].concat()
    }

    #[test]
    fn both_versions_name_the_client_once_all_of_the_header_is_there() {
        let four = [&CLIENT[..], &[10, 0, 0, 1, 0, 80, 1, 187]].concat();
        let six = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1], &[0; 20], &[4, 0, 0]].concat();
        let (v4, v6) = (Some("192.0.2.1"), Some("2001:db8::1"));
        for (header, client) in [
            (b"PROXY TCP4 192.0.2.1 10.0.0.1 50000 443\r\n".to_vec(), v4),
            (b"PROXY TCP6 2001:db8::1 2001:db8::2 50000 443\r\n".to_vec(), v6),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (version_2(0x21, 0x11, &four), v4),
            (version_2(0x21, 0x21, &six), v6),
            (version_2(0x20, 0, &[]), None),
            (version_2(0x21, 0x31, &[0; 216]), None),
        ] {
            let said = ProxyHeader { client: client.map(|client| client.parse().unwrap()) };
            for cut in 0..header.len() {
                assert_eq!(beginning(&header[..cut]), Beginning::Unknown, "{header:?}");
            }
            let more = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(beginning(&more), Beginning::Header(header.len(), said), "{header:?}");
        }
    }

    #[test]
    fn requests_are_told_from_headers_and_damaged_headers_from_both() {
        for request in [&b"GET / HTTP/1.1\r\n"[..], b"POST /v1/reports", b"PU", b"PRI * HTTP/2.0", b"\r\nG"] {
            assert_eq!(beginning(request), Beginning::Request, "{request:?}");
        }
        let long = [LINE, &[b'a'; 200]].concat();
        for damaged in [
            b"PROXY TCP4 me you\r\n".to_vec(),
            b"PROXY \r\n".to_vec(),
            long,
            version_2(0x21, 0x11, &[1, 2]),
            version_2(0x31, 0x11, &[0; 12]),
            version_2(0x21, 0x11, &[0; 60_000]),
        ] {
            assert_eq!(beginning(&damaged), Beginning::Damaged, "{damaged:?}");
        }
    }

    #[tokio::test]
    async fn what_follows_a_header_is_the_request() {
        let header = version_2(0x21, 0x11, &[&CLIENT[..], &[0; 8]].concat());
        let said = ProxyHeader { client: Some(CLIENT.into()) };
        for (bytes, header, rest) in [
            ([&header[..], b"GET"].concat(), Some(said), &b"GET"[..]),
            (b"GET".to_vec(), None, b"GET"),
            (b"PRO".to_vec(), None, b"PRO"),
        ] {
            let (found, read) = read(&mut &bytes[..]).await.unwrap();
            assert_eq!((found, &read[..]), (header, rest));
        }
        assert!(read(&mut &b"PROXY nothing\r\n"[..]).await.is_err());
    }
}
