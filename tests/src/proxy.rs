//! A TCP proxy in front of a server, which makes the network between it and its clients bad.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, watch};

/// Treatment of connections. Those from `Errors` on are for HTTP alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// They are passed on as they are.
    Fair,
    /// They are refused.
    Refused,
    /// Each piece of an answer comes this much later.
    Slow(Duration),
    /// They are taken and stay open, and nothing is passed on.
    Silent,
    /// Requests are answered with an internal error.
    Errors,
    /// Requests are answered with 503: their sender is to slow down.
    Throttled,
    /// Requests are answered with 403: their sender lacks a right.
    Denied,
    /// One of three answers ends in the middle.
    Truncated,
    /// A byte of one of three pieces of bodies is another one, and not the same one twice.
    Corrupt,
}

struct State {
    upstream: std::sync::Mutex<SocketAddr>,
    weather: watch::Sender<Weather>,
    /// Counts up with every cut.
    cuts: watch::Sender<u64>,
    pieces: AtomicU64,
    traps: std::sync::Mutex<Vec<Trap>>,
}

/// The text that a request must contain to be caught, and the receiver of its client's address.
type Trap = (String, mpsc::UnboundedSender<SocketAddr>);

impl State {
    /// Waits while nothing is passed on.
    async fn wait_for_speech(&self) {
        // The sender lives as long as the state.
        let _ = self.weather.subscribe().wait_for(|weather| *weather != Weather::Silent).await;
    }

    /// Who wants to know of a request with this piece.
    fn find_trap(&self, piece: &[u8]) -> Option<mpsc::UnboundedSender<SocketAddr>> {
        let traps = self.traps.lock().expect("not poisoned");
        let names = |text: &str| piece.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        traps.iter().find(|(text, _)| names(text)).map(|(_, caught)| caught.clone())
    }
}

/// A running proxy. Dropped with its runtime.
#[derive(Clone)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

/// How much is passed on at once.
const PIECE_BYTES: usize = 16 << 10;

/// The status line's end and S3's code of an answer in place of the server's.
fn failure_answer(weather: Weather) -> Option<(&'static str, &'static str)> {
    match weather {
        Weather::Errors => Some(("500 Internal Server Error", "InternalError")),
        Weather::Throttled => Some(("503 Service Unavailable", "SlowDown")),
        Weather::Denied => Some(("403 Forbidden", "AccessDenied")),
        _ => None,
    }
}

impl Proxy {
    /// Listens on a free port of the loopback interface. Nothing is passed on before
    /// [`Proxy::forward_to`].
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start() -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            upstream: std::sync::Mutex::new(address),
            weather: watch::Sender::new(Weather::Refused),
            cuts: watch::Sender::new(0),
            pieces: AtomicU64::new(0),
            traps: std::sync::Mutex::default(),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => drop(tokio::spawn(serve_connection(client, Arc::clone(&shared)))),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Proxy { address, state }
    }

    /// Starts a proxy that passes on to the server of a URL. Returns it with the URL that leads through it.
    ///
    /// # Panics
    /// If the URL has no address and port, or there is no port.
    pub async fn for_url(url: &str) -> (Proxy, String) {
        let (_, rest) = url.split_once("://").expect("a URL");
        let authority = rest.split('/').next().unwrap_or_default();
        let server = authority.rsplit('@').next().unwrap_or_default();
        let proxy = Proxy::start().await;
        proxy.forward_to(server.parse().unwrap_or_else(|error| panic!("{server}: {error}")));
        let through = url.replacen(server, &proxy.address().to_string(), 1);
        (proxy, through)
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes connections on to a server from now on, in fair weather.
    ///
    /// # Panics
    /// If a thread panicked while it held the address.
    pub fn forward_to(&self, upstream: SocketAddr) {
        *self.state.upstream.lock().expect("not poisoned") = upstream;
        self.set_weather(Weather::Fair);
    }

    /// Changes the weather, also for connections that are open.
    pub fn set_weather(&self, weather: Weather) {
        self.state.weather.send_replace(weather);
        if weather == Weather::Refused {
            self.cut_connections();
        }
    }

    /// From now on a request over HTTP that names `text` is never passed on and never answered. Each is
    /// reported with its client's address.
    ///
    /// # Panics
    /// If a thread panicked while it held the traps.
    #[must_use]
    pub fn trap_requests(&self, text: &str) -> mpsc::UnboundedReceiver<SocketAddr> {
        let (caught, receiver) = mpsc::unbounded_channel();
        self.state.traps.lock().expect("not poisoned").push((text.to_owned(), caught));
        receiver
    }

    /// Ends every connection at once, with a reset.
    pub fn cut_connections(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn serve_connection(client: TcpStream, state: Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    let upstream = *state.upstream.lock().expect("not poisoned");
    if *state.weather.borrow() == Weather::Refused {
        return;
    }
    // A server that is stopped in the middle takes no connections.
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    for socket in [&client, &server] {
        let _ = socket.set_nodelay(true);
    }
    // The proxy's end of a connection has nothing of its own to say: when it is dropped, the other
    // side is to learn that at once.
    let _ = client.set_zero_linger();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let to_client = Arc::new(Mutex::new(to_client));
    let up = pass_requests(from_client, to_server, Arc::clone(&to_client), &state);
    let down = pass_answers(from_server, to_client, &state);
    tokio::select! {
        _ = async { tokio::try_join!(up, down) } => {}
        _ = cuts.changed() => {}
    }
}

/// Passes requests on. `Err` ends the connection in both directions.
async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    client: Arc<Mutex<OwnedWriteHalf>>,
    state: &State,
) -> Result<(), ()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await.map_err(drop)?;
        if length == 0 {
            return to.shutdown().await.map_err(drop);
        }
        if let Some(caught) = state.find_trap(&piece[..length]) {
            // Whoever does not listen any more still gets no request through.
            let _ = caught.send(from.peer_addr().map_err(drop)?);
            while matches!(from.read(&mut piece).await, Ok(1..)) {}
            return Err(());
        }
        let weather = *state.weather.borrow();
        if let Some((status, code)) = failure_answer(weather) {
            let body =
                format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>chaos</Message></Error>");
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/xml\r\nconnection: close");
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let mut client = client.lock().await;
            client.write_all(answer.as_bytes()).await.map_err(drop)?;
            // What the client still sends would turn its answer into a reset.
            let drain = async { while matches!(from.read(&mut piece).await, Ok(1..)) {} };
            let _ = tokio::time::timeout(Duration::from_millis(300), drain).await;
            return Err(());
        }
        state.wait_for_speech().await;
        to.write_all(&piece[..length]).await.map_err(drop)?;
    }
}

/// Passes answers on. `Err` ends the connection in both directions.
async fn pass_answers(
    mut from: OwnedReadHalf,
    to: Arc<Mutex<OwnedWriteHalf>>,
    state: &State,
) -> Result<(), ()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await.map_err(drop)?;
        if length == 0 {
            return to.lock().await.shutdown().await.map_err(drop);
        }
        let weather = *state.weather.borrow();
        let piece = &mut piece[..length];
        let body = match piece.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(end) if piece.starts_with(b"HTTP/1.1 ") => end + 4,
            _ => 0,
        };
        match weather {
            Weather::Fair | Weather::Refused | Weather::Errors | Weather::Throttled | Weather::Denied => {}
            Weather::Silent => state.wait_for_speech().await,
            Weather::Slow(time) => tokio::time::sleep(time).await,
            Weather::Truncated | Weather::Corrupt => {
                let count = state.pieces.fetch_add(1, Ordering::Relaxed);
                if count.is_multiple_of(3) && body < length {
                    let middle = body + (length - body) / 2;
                    if weather == Weather::Truncated {
                        let mut to = to.lock().await;
                        to.write_all(&piece[..middle]).await.map_err(drop)?;
                        return Err(());
                    }
                    // A prime apart, so that what is read again is not damaged alike.
                    let at = usize::try_from(count.wrapping_mul(7919)).unwrap_or_default();
                    piece[body + at % (length - body)] ^= 0x20;
                }
            }
        }
        to.lock().await.write_all(piece).await.map_err(drop)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each request of one line with a fixed text, and a proxy before it.
    async fn world() -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::start().await;
        proxy.forward_to(listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 64];
                    while matches!(socket.read(&mut request).await, Ok(1..)) {
                        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef").await;
                    }
                });
            }
        });
        proxy
    }

    /// What the client gets for a request until the answer is whole or the connection ends.
    async fn ask(socket: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let mut piece = [0; 512];
        if socket.write_all(b"GET /\r\n").await.is_err() {
            return String::new();
        }
        while let Ok(length @ 1..) = socket.read(&mut piece).await {
            all.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&all);
            if text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() == 6) {
                break;
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    fn body(answer: &str) -> &str {
        answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    #[tokio::test]
    async fn each_weather_is_what_it_says() {
        let proxy = world().await;
        let connect = || TcpStream::connect(proxy.address());
        let mut open = connect().await.unwrap();
        assert_eq!(body(&ask(&mut open).await), "abcdef");

        proxy.set_weather(Weather::Corrupt);
        let mut bodies = Vec::new();
        for _ in 0..6 {
            bodies.push(body(&ask(&mut open).await).to_owned());
        }
        assert_eq!(bodies.iter().filter(|b| *b != "abcdef").count(), 2, "{bodies:?}");

        proxy.set_weather(Weather::Truncated);
        let mut short = 0;
        for _ in 0..6 {
            short += usize::from(body(&ask(&mut connect().await.unwrap()).await).len() == 3);
        }
        assert_eq!(short, 2);

        proxy.set_weather(Weather::Errors);
        assert!(ask(&mut connect().await.unwrap()).await.starts_with("HTTP/1.1 500"));
        proxy.set_weather(Weather::Throttled);
        assert!(ask(&mut connect().await.unwrap()).await.starts_with("HTTP/1.1 503"));
        proxy.set_weather(Weather::Silent);
        let mut silent = connect().await.unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(100), ask(&mut silent)).await;
        assert!(waits.is_err(), "nothing comes, and the connection stays");
        proxy.set_weather(Weather::Denied);
        assert!(ask(&mut connect().await.unwrap()).await.starts_with("HTTP/1.1 403"));

        proxy.set_weather(Weather::Slow(Duration::from_millis(1)));
        assert_eq!(body(&ask(&mut connect().await.unwrap()).await), "abcdef");
        proxy.cut_connections();
        assert_eq!(ask(&mut open).await, "");

        proxy.set_weather(Weather::Refused);
        assert_eq!(ask(&mut connect().await.unwrap()).await, "");
        proxy.set_weather(Weather::Fair);
        assert_eq!(body(&ask(&mut connect().await.unwrap()).await), "abcdef");
    }

    #[tokio::test]
    async fn a_trapped_request_is_told_of_and_never_answered() {
        let proxy = world().await;
        let mut caught = proxy.trap_requests("/forbidden");
        let mut other = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(body(&ask(&mut other).await), "abcdef");
        let mut trapped = TcpStream::connect(proxy.address()).await.unwrap();
        trapped.write_all(b"GET /forbidden/fruit\r\n").await.unwrap();
        assert_eq!(caught.recv().await, Some(trapped.local_addr().unwrap()));
        trapped.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // The connection ends, orderly or not, without a byte.
        let _ = trapped.read_to_end(&mut answer).await;
        assert!(answer.is_empty(), "{answer:?}");
        assert_eq!(body(&ask(&mut other).await), "abcdef");
    }
}
