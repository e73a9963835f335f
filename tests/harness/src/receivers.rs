//! Receivers of alerts: an HTTP server and a mail server, which keep what they were sent and fail as a test wants.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request that an [`HttpReceiver`] has read to its end.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The path.
    pub path: String,
    /// The headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// The status of the answer; `None` if the connection was cut.
    pub status: Option<u16>,
}

impl ReceivedRequest {
    /// Whether it is signed with a secret as Standard Webhooks says.
    #[must_use]
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let header = |name: &str| self.headers.get(name).map_or("", String::as_str);
        let key = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
        mac.update(
            format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), self.body).as_bytes(),
        );
        header("webhook-signature") == format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub enum HttpAnswer {
    /// It is answered with a status and a body.
    Status(u16, &'static str),
    /// It is refused with 429 for this many seconds.
    Limited(u32),
    /// It is sent elsewhere.
    Redirect(&'static str),
    /// It is answered with 200, after this time.
    Late(Duration),
    /// The connection ends in the middle of the answer.
    Cut,
}

impl HttpAnswer {
    fn status(self) -> Option<u16> {
        match self {
            HttpAnswer::Status(status, _) => Some(status),
            HttpAnswer::Limited(_) => Some(429),
            HttpAnswer::Redirect(_) => Some(307),
            HttpAnswer::Late(_) => Some(200),
            HttpAnswer::Cut => None,
        }
    }
}

/// What becomes of a mail.
#[derive(Clone, Copy, Debug)]
pub enum MailAnswer {
    /// It is taken.
    Taken,
    /// Its recipients are refused for now.
    Refused,
    /// The connection ends in the middle of its text.
    Cut,
    /// It is taken, and the connection ends before the server says so.
    TakenAndCut,
}

/// A mail that a [`MailReceiver`] has taken.
#[derive(Clone, Debug)]
pub struct ReceivedMail {
    /// The recipients' addresses.
    pub recipients: Vec<String>,
    /// Its headers and its body.
    pub text: String,
}

impl ReceivedMail {
    /// The value of a header on one line.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.text.lines().take_while(|line| !line.is_empty());
        headers.filter_map(|line| line.split_once(": ")).find(|(of, _)| *of == name).map(|(_, value)| value)
    }
}

/// What a receiver was sent, and whether it is away.
struct Receiver<T> {
    received: Mutex<Vec<T>>,
    away: AtomicBool,
}

impl<T: Clone> Receiver<T> {
    fn new() -> Arc<Receiver<T>> {
        Arc::new(Receiver { received: Mutex::default(), away: AtomicBool::new(false) })
    }

    fn received(&self) -> Vec<T> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, one: T) {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    /// Accepts connections; while the receiver is away they end at once.
    async fn accept(&self, listener: &TcpListener) -> TcpStream {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            // What is cut ends with a reset.
            let _ = stream.set_zero_linger();
            if !self.away.load(Ordering::Relaxed) {
                return stream;
            }
        }
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// An HTTP server. It ends with its runtime.
pub struct HttpReceiver {
    address: SocketAddr,
    receiver: Arc<Receiver<ReceivedRequest>>,
}

impl HttpReceiver {
    /// Starts it on a free port. `answer` is asked once for each request, with those before.
    pub async fn start(
        answer: impl FnMut(&ReceivedRequest, &[ReceivedRequest]) -> HttpAnswer + Send + 'static,
    ) -> HttpReceiver {
        let (listener, address) = listen().await;
        let receiver = Receiver::new();
        let (kept, answer) = (Arc::clone(&receiver), Arc::new(Mutex::new(answer)));
        tokio::spawn(async move {
            loop {
                let mut stream = kept.accept(&listener).await;
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some(mut request) = read_request(&mut stream).await else { return };
                    let answer = {
                        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
                        answer(&request, &kept.received())
                    };
                    request.status = answer.status();
                    kept.add(request);
                    write_answer(stream, answer).await;
                });
            }
        });
        HttpReceiver { address, receiver }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.receiver.received()
    }

    /// Lets it go away, or come back.
    pub fn set_away(&self, away: bool) {
        self.receiver.away.store(away, Ordering::Relaxed);
    }
}

/// One request, if the client sends all of it.
async fn read_request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest { path, headers, body: String::from_utf8(body).ok()?, status: None })
}

/// Answers and ends the connection.
async fn write_answer(mut stream: TcpStream, answer: HttpAnswer) {
    let (status, more, body) = match answer {
        HttpAnswer::Status(status, body) => (status, String::new(), body),
        HttpAnswer::Limited(seconds) => (429, format!("retry-after: {seconds}\r\n"), ""),
        HttpAnswer::Redirect(to) => (307, format!("location: {to}\r\n"), ""),
        HttpAnswer::Late(time) => {
            tokio::time::sleep(time).await;
            (200, String::new(), "late")
        }
        HttpAnswer::Cut => {
            let _ = stream.write_all(b"HTTP/1.1 200 ").await;
            return;
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    // The client ends the connection: a reset would overtake the answer.
    let _ = stream.read(&mut [0]).await;
}

/// A mail server. It ends with its runtime.
pub struct MailReceiver {
    address: SocketAddr,
    receiver: Arc<Receiver<ReceivedMail>>,
}

impl MailReceiver {
    /// Starts it on a free port. `answer` is asked once for each mail.
    pub async fn start(mut answer: impl FnMut() -> MailAnswer + Send + 'static) -> MailReceiver {
        let (listener, address) = listen().await;
        let receiver = Receiver::new();
        let kept = Arc::clone(&receiver);
        tokio::spawn(async move {
            loop {
                let (stream, answer) = (kept.accept(&listener).await, answer());
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    // A client that is killed ends its connection.
                    let _ = read_mail(stream, answer, &kept).await;
                });
            }
        });
        MailReceiver { address, receiver }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    /// The mails so far.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedMail> {
        self.receiver.received()
    }

    /// Lets it go away, or come back.
    pub fn set_away(&self, away: bool) {
        self.receiver.away.store(away, Ordering::Relaxed);
    }
}

/// A session of a client with one mail, but for the commands' order.
async fn read_mail(
    mut stream: TcpStream,
    answer: MailAnswer,
    receiver: &Receiver<ReceivedMail>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"220 test ESMTP\r\n").await?;
    let (mut recipients, mut text, mut in_text) = (Vec::new(), String::new(), false);
    while let Some(line) = lines.next_line().await? {
        let said: &[u8] = match line.split([' ', ':']).next().unwrap_or_default() {
            "." if in_text => {
                in_text = false;
                let text = std::mem::take(&mut text);
                receiver.add(ReceivedMail { recipients: std::mem::take(&mut recipients), text });
                if matches!(answer, MailAnswer::TakenAndCut) {
                    return Ok(());
                }
                b"250 taken\r\n"
            }
            _ if in_text => {
                text.push_str(line.strip_prefix('.').unwrap_or(&line));
                text.push('\n');
                if matches!(answer, MailAnswer::Cut) {
                    return Ok(());
                }
                continue;
            }
            "RCPT" if matches!(answer, MailAnswer::Refused) => b"450 later\r\n",
            "RCPT" => {
                let address = line.split(['<', '>']).nth(1).unwrap_or_default();
                recipients.push(address.to_owned());
                b"250 fine\r\n"
            }
            "DATA" => {
                in_text = true;
                b"354 go on\r\n"
            }
            "QUIT" => b"221 bye\r\n",
            _ => b"250 fine\r\n",
        };
        write.write_all(said).await?;
    }
    Ok(())
}
