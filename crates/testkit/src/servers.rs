//! The servers that `make test` keeps up for the whole run.

fn required(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make test`, or start the servers with `make servers` and export what it prints")
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
