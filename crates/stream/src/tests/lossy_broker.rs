//! A broker between which and its clients confirmations are lost.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use unslide_testkit::servers;

/// Produce's number among the requests of Kafka's protocol.
const PRODUCE: [u8; 2] = [0, 0];

/// A proxy in front of the test's broker. Its clients reach the broker by it alone. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LossyBroker(Arc<State>);

struct State {
    broker: SocketAddr,
    own: SocketAddr,
    loses_next: AtomicBool,
    lost: AtomicUsize,
    /// While it is true, connections end.
    is_away: watch::Sender<bool>,
}

impl LossyBroker {
    pub(crate) async fn start() -> LossyBroker {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let state = Arc::new(State {
            broker: servers::kafka().parse().unwrap(),
            own: listener.local_addr().unwrap(),
            loses_next: AtomicBool::new(false),
            lost: AtomicUsize::new(0),
            is_away: watch::Sender::new(false),
        });
        let broker = LossyBroker(state.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = state.clone();
                tokio::spawn(async move {
                    let mut is_away = state.is_away.subscribe();
                    let passing = state.pass_on(client);
                    tokio::select! {
                        biased;
                        _ = is_away.wait_for(|is_away| *is_away) => {}
                        _ = passing => {}
                    }
                });
            }
        });
        broker
    }

    pub(crate) fn address(&self) -> String {
        self.0.own.to_string()
    }

    /// Loses the next confirmation of records that the broker has written, and is away from then on.
    pub(crate) fn lose_confirmation(&self) {
        self.0.loses_next.store(true, Ordering::SeqCst);
    }

    /// Returns the number of lost confirmations.
    pub(crate) fn lost_count(&self) -> usize {
        self.0.lost.load(Ordering::SeqCst)
    }

    pub(crate) fn come_back(&self) {
        self.0.is_away.send_replace(false);
    }
}

impl State {
    /// Passes requests and answers on until a connection ends, or a confirmation is lost.
    async fn pass_on(&self, client: TcpStream) -> std::io::Result<()> {
        let broker = TcpStream::connect(self.broker).await?;
        for stream in [&client, &broker] {
            stream.set_nodelay(true)?;
        }
        let ((mut questions, mut to_client), (mut answers, mut to_broker)) =
            (client.into_split(), broker.into_split());
        // Numbers of produce requests without an answer.
        let sent = Mutex::new(BTreeSet::new());
        let asking = async {
            loop {
                let question = read_message(&mut questions).await?;
                if question[4..6] == PRODUCE {
                    sent.lock().insert(question[8..12].to_vec());
                }
                to_broker.write_all(&question).await?;
            }
        };
        let answering = async {
            loop {
                let mut answer = read_message(&mut answers).await?;
                let is_confirmation = sent.lock().remove(&answer[4..8]);
                if is_confirmation && self.loses_next.swap(false, Ordering::SeqCst) {
                    self.lost.fetch_add(1, Ordering::SeqCst);
                    self.is_away.send_replace(true);
                    return Ok(());
                }
                self.replace_address(&mut answer);
                to_client.write_all(&answer).await?;
            }
        };
        tokio::select! {
            asked = asking => asked,
            answered = answering => answered,
        }
    }

    /// Puts the proxy's port in the place of the broker's.
    fn replace_address(&self, answer: &mut [u8]) {
        let host = self.broker.ip().to_string();
        let of_port = |port: u16| i32::from(port).to_be_bytes();
        let named = [host.as_bytes(), &of_port(self.broker.port())].concat();
        let places: Vec<usize> = answer
            .windows(named.len())
            .enumerate()
            .filter(|(_, part)| *part == named)
            .map(|(n, _)| n)
            .collect();
        for place in places {
            answer[place + host.len()..place + named.len()].copy_from_slice(&of_port(self.own.port()));
        }
    }
}

/// Reads a message with the four bytes of its length.
async fn read_message(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; 4];
    from.read_exact(&mut message).await?;
    let length = u32::from_be_bytes(*message.first_chunk().unwrap());
    message.resize(4 + length as usize, 0);
    from.read_exact(&mut message[4..]).await?;
    Ok(message)
}
