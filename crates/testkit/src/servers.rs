//! The servers that `make test` keeps up for the whole run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn required(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make test`, or `scripts/setup test`, start the servers with `make servers` and export what it prints")
    })
}

/// The bootstrap address of the Kafka that tests share (`host:port`).
#[must_use]
pub fn kafka() -> String {
    required("UNSLIDE_TEST_KAFKA")
}

/// The URL of a superuser's connection to the PostgreSQL that tests share.
#[must_use]
pub fn postgres() -> String {
    required("UNSLIDE_TEST_POSTGRES")
}

/// The URL of the ClickHouse that tests share. Each test has a database of its own there.
#[must_use]
pub fn clickhouse() -> String {
    required("UNSLIDE_TEST_CLICKHOUSE")
}

/// A name that no other test of this run uses: `prefix`, the process, a counter and random digits.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "names of what several test programs make on one server")]
pub fn unique(prefix: &str) -> String {
    use std::hash::{BuildHasher, Hasher};
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{prefix}-{}-{}-{:08x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed), random >> 32)
}

/// Sets how many bytes a second the broker takes from clients of this id; `None` takes the quota away. By
/// the protocol's AlterClientQuotas, version 0: the client library has no call for it.
///
/// The broker confirms a quota before it applies it, and applies all changes in their order: a test sets its quota before
/// it creates its topics, so that the quota holds once the topics are there.
///
/// # Panics
/// If the broker refuses.
pub fn set_kafka_quota(client: &str, bytes_per_second: Option<f64>) {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend(i16::try_from(text.len()).expect("a short text").to_be_bytes());
        out.extend(text.as_bytes());
    };
    let mut request = Vec::new();
    request.extend(49_i16.to_be_bytes());
    request.extend(0_i16.to_be_bytes());
    request.extend(7_i32.to_be_bytes());
    text(&mut request, "quota");
    // One entry, of one entity, with one value.
    request.extend(1_i32.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    text(&mut request, "client-id");
    text(&mut request, client);
    request.extend(1_i32.to_be_bytes());
    text(&mut request, "producer_byte_rate");
    request.extend(bytes_per_second.unwrap_or(0.0).to_be_bytes());
    request.push(u8::from(bytes_per_second.is_none()));
    // It is meant.
    request.push(0);
    let length = u32::try_from(request.len()).expect("a short request").to_be_bytes();
    let mut answer = [0; 14];
    let answered = TcpStream::connect(kafka()).and_then(|mut broker| {
        broker.set_read_timeout(Some(Duration::from_secs(60)))?;
        broker.write_all(&[&length[..], &request].concat())?;
        let mut length = [0; 4];
        broker.read_exact(&mut length)?;
        broker.read_exact(&mut answer)
    });
    answered.expect("the broker answers");
    // Number of the request, time of throttling, one entry, and its error.
    assert_eq!(answer[..4], 7_i32.to_be_bytes());
    assert_eq!((&answer[8..12], &answer[12..14]), (&[0, 0, 0, 1][..], &[0, 0][..]), "{answer:?}");
}
