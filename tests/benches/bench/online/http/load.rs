//! Clients that ask without a pause, each on a connection of its own, and what the api used meanwhile.

use super::allocations::{AllocationCounter, Allocations};
use crate::online::flow::since;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};
use unslide_tests::binary::{Process, ThreadUse};

/// A request as it goes over the wire.
pub struct Request {
    bytes: Vec<u8>,
    /// The status that has to come.
    status: u16,
}

impl Request {
    /// A `POST` with these lines in its head, which is to be answered with `status`.
    pub fn post(path: &str, head: &str, body: &[u8], status: u16) -> Request {
        let length = body.len();
        let mut bytes =
            format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {length}\r\n{head}\r\n")
                .into_bytes();
        bytes.extend_from_slice(body);
        Request { bytes, status }
    }
}

/// A server under load.
pub struct Load<'a> {
    /// Counts its allocations.
    pub counter: Option<&'a AllocationCounter>,
    /// Where it listens: host and port.
    pub address: String,
    /// Its process.
    pub process: &'a Process,
}

/// What `requests` requests took.
pub struct LoadFigures {
    pub requests: u32,
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
    /// The part of its CPU time that the api spent in the kernel.
    pub kernel_share: f64,
    /// The part of all cores' time that anything ran.
    pub busy: f64,
    /// What the api's threads used.
    pub threads: BTreeMap<String, ThreadUse>,
    allocations: Allocations,
}

impl LoadFigures {
    /// Milliseconds of the api's CPU time for a request.
    pub fn cpu_millis(&self) -> f64 {
        let cpu: Duration = self.threads.values().map(|used| used.cpu).sum();
        cpu.as_secs_f64() * 1_000.0 / f64::from(self.requests)
    }

    /// How often one of the api's threads was woken for a request.
    pub fn wakes(&self) -> f64 {
        self.threads.values().map(|used| used.wakes).sum::<u64>() as f64 / f64::from(self.requests)
    }

    /// Allocations for a request, their KiB, and the KiB of the large ones among them.
    pub fn allocated(&self) -> [f64; 3] {
        let Allocations { count, bytes, large_bytes } = self.allocations;
        let each = |number: u64| number as f64 / f64::from(self.requests);
        [each(count), each(bytes) / 1024.0, each(large_bytes) / 1024.0]
    }
}

impl Load<'_> {
    /// Has `clients` send `requests` requests together.
    pub fn run(&self, request: &Request, clients: u32, requests: u32) -> LoadFigures {
        let each = requests.div_ceil(clients);
        let (threads, [user, kernel]) = (self.process.use_by_thread(), self.process.cpu_by_mode());
        let (allocations, (busy, total)) = (self.allocations(), machine_ticks());
        let start = Instant::now();
        let mut times: Vec<Duration> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..clients).map(|_| scope.spawn(|| self.ask(request, each))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("it is answered")).collect()
        });
        let elapsed = start.elapsed();
        let now = self.allocations();
        let (busy_now, total_now) = machine_ticks();
        let [user_now, kernel_now] = self.process.cpu_by_mode();
        let (in_user, in_kernel) = (user_now - user, kernel_now - kernel);
        times.sort();
        LoadFigures {
            requests: each * clients,
            per_second: times.len() as f64 / elapsed.as_secs_f64(),
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
            kernel_share: in_kernel.as_secs_f64() / (in_user + in_kernel).as_secs_f64().max(0.01),
            busy: (busy_now - busy) as f64 / (total_now - total).max(1) as f64,
            threads: since(self.process.use_by_thread(), &threads),
            allocations: Allocations {
                count: now.count - allocations.count,
                bytes: now.bytes - allocations.bytes,
                large_bytes: now.large_bytes - allocations.large_bytes,
            },
        }
    }

    fn allocations(&self) -> Allocations {
        self.counter.map(AllocationCounter::read).unwrap_or_default()
    }

    /// The body of the answer to one request, which is JSON.
    pub fn answer(&self, request: &Request) -> serde_json::Value {
        let (mut stream, mut buffer) = self.connect();
        stream.write_all(&request.bytes).expect("it is taken");
        let (status, body) = read_answer(&mut stream, &mut buffer);
        let body = serde_json::from_slice(&buffer[body]).expect("JSON");
        assert_eq!(status, request.status, "{body}");
        body
    }

    fn connect(&self) -> (TcpStream, Vec<u8>) {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_nodelay(true).expect("an option that Linux has");
        (stream, vec![0; 4 << 20])
    }

    fn ask(&self, request: &Request, times: u32) -> Vec<Duration> {
        let (mut stream, mut buffer) = self.connect();
        let one = |_| {
            let start = Instant::now();
            stream.write_all(&request.bytes).expect("it is taken");
            let (status, _) = read_answer(&mut stream, &mut buffer);
            assert_eq!(status, request.status, "{}", String::from_utf8_lossy(&buffer[..512]));
            start.elapsed()
        };
        (0..times).map(one).collect()
    }
}

/// Reads an answer to its end and returns its status, and where its body lies.
fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> (u16, Range<usize>) {
    let (mut filled, mut body) = (0, None);
    while body.as_ref().is_none_or(|body: &Range<usize>| filled < body.end) {
        let read = stream.read(&mut buffer[filled..]).expect("an answer");
        assert!(read > 0, "the answer breaks off after {filled} bytes");
        filled += read;
        if body.is_none() {
            let head = buffer[..filled].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            body = head.map(|head| head + 4..head + 4 + content_length(&buffer[..head]));
        }
    }
    let status = buffer.get(9..12).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    (status.expect("a status"), body.expect("a body"))
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let line = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    line.and_then(|length| length.trim().parse().ok()).expect("an answer with a length")
}

/// The ticks that the machine's cores ran, and all that went by.
fn machine_ticks() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // The fourth and the fifth are idle.
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    (all - ticks.iter().skip(3).take(2).sum::<u64>(), all)
}
