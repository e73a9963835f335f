//! Permits that requests hold while they run, with a limit for each tenant. [`slot`](super::slot) has the slot of a
//! request among those that run.
//!
//! Some requests, bodies and database connections are reserved for operators' operations, so that operators
//! can suspend tenants that use up all the rest.

use crate::limits::request_limits::RequestLimits;
use crate::problem::{Kind, Problem};
use prometheus::IntCounterVec;
use unslide_model::{Stats, TenantId};
use unslide_runtime::clients::Network;
use unslide_runtime::fairness::{ByteReservation, Exhausted, FairPermit, FairSemaphore};

/// A semaphore that tenants share.
pub type TenantSemaphore = FairSemaphore<TenantId>;
/// A permit of one tenant.
pub type Permit = FairPermit<TenantId>;
/// A byte reservation of one tenant.
pub type Reservation = ByteReservation<TenantId>;
/// A semaphore that the networks of clients share.
pub type NetworkSemaphore = FairSemaphore<Network>;

/// Largest size of a JSON request body, in bytes.
pub const JSON_BYTES: u64 = 1 << 20;
/// Requests reserved for operators, beyond `requests`.
pub(super) const OPERATOR_REQUESTS: u64 = 16;
/// JSON bodies of the largest size that operators may send at the same time.
const OPERATOR_BODIES: u64 = 4;
/// Maximum number of streams, of all tenants and of one.
const STREAMS_LIMIT: u32 = 256;
const STREAMS_OF_TENANT: u32 = 16;
/// The part of its tenant's requests and bodies that public keys, names keys and people before their sign-in may use.
const PUBLIC_DIVISOR: u64 = 2;
/// Bodies without a known key that may arrive at the same time, of all networks and of one.
const KEYLESS_BODIES_LIMIT: u32 = 16;
const KEYLESS_BODIES_OF_NETWORK: u32 = 2;
/// Bodies with public keys that may arrive at the same time from one network. Tenants' shares bound them together.
const PUBLIC_BODIES_OF_NETWORK: u32 = 8;
/// Seconds after which a client may retry a request that found no permit.
pub(super) const RETRY_AFTER: u32 = 1;

impl From<Exhausted> for Problem {
    fn from(exhausted: Exhausted) -> Problem {
        let kind = match exhausted {
            Exhausted::Share { .. } => Kind::TenantBusy,
            Exhausted::All { .. } => Kind::Overloaded,
        };
        Problem::new(kind, exhausted.to_string()).retry_after(RETRY_AFTER)
    }
}

/// The permits of one process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Permits {
    pub requests: TenantSemaphore,
    /// Requests of operators' operations when all other permits are taken.
    pub operator_requests: TenantSemaphore,
    /// Requests with keys that are public, each of which holds a permit of `requests`, too.
    pub public_requests: TenantSemaphore,
    /// Bodies that arrive without a known key.
    pub keyless_bodies: NetworkSemaphore,
    /// Bodies that arrive with keys that are public.
    pub arriving_public_bodies: NetworkSemaphore,
    /// Requests that wait because their client asked for it.
    pub waits: TenantSemaphore,
    /// Streams: responses that go on until their client leaves.
    pub streams: TenantSemaphore,
    /// Symbol uploads that are being received.
    pub uploads: TenantSemaphore,
    /// Bodies in memory, in KiB.
    pub bodies: TenantSemaphore,
    /// Bodies with keys that are public, in KiB, which hold permits of `bodies`, too.
    public_bodies: TenantSemaphore,
    /// Bodies of operators' operations, in KiB.
    pub operator_bodies: TenantSemaphore,
    /// Responses in memory, in KiB.
    pub answers: TenantSemaphore,
    pub downloads: TenantSemaphore,
    pub connections: TenantSemaphore,
    pub dead_letters: TenantSemaphore,
}

impl Permits {
    /// Gauges of the permits, for metrics.
    pub const PERMIT_STATS: [Stats<Permits>; 3] = [
        Stats {
            name: "unslide_api_in_flight",
            help: "Requests, bodies without a key, symbol uploads, readers of dead letters and streams in flight, and requests that wait.",
            label: "kind",
            read: |permits| {
                vec![
                    ("requests", permits.requests.held_permits() + permits.operator_requests.held_permits()),
                    ("keyless_bodies", permits.keyless_bodies.held_permits()),
                    ("waits", permits.waits.held_permits()),
                    ("uploads", permits.uploads.held_permits()),
                    ("dead_letters", permits.dead_letters.held_permits()),
                    ("streams", permits.streams.held_permits()),
                ]
            },
        },
        Stats {
            name: "unslide_api_waiting",
            help: "Requests that wait for a connection, a download or a reader that other requests of their tenant hold.",
            label: "kind",
            read: |permits| {
                vec![
                    ("downloads", permits.downloads.waiting_callers()),
                    ("connections", permits.connections.waiting_callers()),
                    ("dead_letters", permits.dead_letters.waiting_callers()),
                ]
            },
        },
        Stats {
            name: "unslide_api_body_bytes",
            help: "Bytes of bodies in memory, announced, received or unpacked, and of answers.",
            label: "kind",
            read: |permits| {
                let bodies = permits.bodies.held_permits() + permits.operator_bodies.held_permits();
                vec![("reports", bodies << 10), ("answers", permits.answers.held_permits() << 10)]
            },
        },
    ];

    /// Creates permits within `limits`, with this many symcache downloads and database connections. `refused`
    /// counts the requests that a limit refuses.
    #[must_use]
    pub fn new(
        limits: &RequestLimits,
        downloads: usize,
        connections: u32,
        refused: &IntCounterVec,
    ) -> Permits {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let percent = |all: u64| all.saturating_mul(limits.tenant_share.into()).div_ceil(100);
        let shared = |name, all: u64| TenantSemaphore::new(name, small(all), small(percent(all)));
        let counted = |name, label, all: u64, least: u64| {
            let refused = refused.with_label_values(&[label]);
            TenantSemaphore::with_refusal_counter(name, small(all), small(percent(all).max(least)), refused)
        };
        let public = |name, label, all: u64, least: u64| {
            let (refused, share) = (refused.with_label_values(&[label]), percent(all).max(least));
            TenantSemaphore::with_refusal_counter(name, small(all), small(share / PUBLIC_DIVISOR), refused)
        };
        let reserved = |name, all: u64| TenantSemaphore::new(name, small(all), small(all));
        let body = limits.ingest_bytes.max(limits.ingest_unpacked_bytes).div_ceil(1_024);
        let bodies = body.saturating_mul(limits.bodies as u64);
        let operator_bodies = OPERATOR_BODIES.saturating_mul(JSON_BYTES.div_ceil(1_024));
        // The connections that tenants cannot have are for operators and for key look-ups.
        let tenant_connections = connections - (connections / 4 + 1).min(connections.saturating_sub(1));
        Permits {
            requests: counted("requests", "requests", limits.requests as u64, 1),
            operator_requests: reserved("requests", OPERATOR_REQUESTS),
            public_requests: public(
                "requests with public keys",
                "public_requests",
                limits.requests as u64,
                1,
            ),
            keyless_bodies: NetworkSemaphore::with_refusal_counter(
                "request bodies without a key",
                KEYLESS_BODIES_LIMIT,
                KEYLESS_BODIES_OF_NETWORK,
                refused.with_label_values(&["keyless_bodies"]),
            ),
            arriving_public_bodies: NetworkSemaphore::with_refusal_counter(
                "request bodies with public keys",
                u32::MAX,
                PUBLIC_BODIES_OF_NETWORK,
                refused.with_label_values(&["arriving_public_bodies"]),
            ),
            waits: counted("waiting requests", "waits", limits.waits as u64, 1),
            streams: TenantSemaphore::new("streams", STREAMS_LIMIT, STREAMS_OF_TENANT),
            uploads: counted("uploads", "uploads", limits.uploads as u64, 1),
            // One body of the largest size always fits.
            bodies: counted("request bodies (KiB)", "bodies", bodies, body),
            public_bodies: public("request bodies with public keys (KiB)", "public_bodies", bodies, body),
            operator_bodies: reserved("request bodies (KiB)", operator_bodies),
            answers: counted("answers (KiB)", "answers", limits.answer_bytes >> 10, 1),
            downloads: shared("symbol downloads", downloads as u64),
            connections: TenantSemaphore::new(
                "database connections",
                tenant_connections,
                small(percent(connections.into())),
            ),
            dead_letters: shared("dead-letter readers", limits.letters as u64),
        }
    }

    /// Returns a reservation without bytes for a body with a key that is public. Such bodies together leave their tenant's
    /// other senders the rest.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn reserve_public_body(&self, tenant: &TenantId) -> Result<Reservation, Exhausted> {
        Reservation::within(&self.public_bodies, &self.bodies, tenant)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use prometheus::Opts;

    pub fn permits(limits: &RequestLimits) -> Permits {
        Permits::new(limits, 8, 8, &IntCounterVec::new(Opts::new("refused", "Refused."), &["limit"]).unwrap())
    }

    /// A reservation without bytes that can grow to this many where another holds one KiB.
    pub fn reservation(bytes: u64) -> (Reservation, Reservation) {
        let kib = u32::try_from(bytes >> 10).unwrap() + 1;
        let (semaphore, tenant) = (TenantSemaphore::new("bytes", kib, kib), tenant("acme"));
        let reserve = |bytes| Reservation::new(&semaphore, &tenant, bytes).unwrap();
        (reserve(0), reserve(1))
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn kind<T>(taken: Result<T, Exhausted>) -> Option<Kind> {
        taken.err().map(|exhausted| Problem::from(exhausted).kind())
    }

    #[test]
    fn a_share_holds_one_body_of_the_largest_size_at_least() {
        let permits =
            permits(&RequestLimits { uploads: 1, bodies: 1, tenant_share: 1, ..RequestLimits::default() });
        let whole = u32::try_from(RequestLimits::default().ingest_unpacked_bytes >> 10).unwrap();
        permits.uploads.try_acquire(&tenant("acme"), 1).unwrap();
        permits.bodies.try_acquire(&tenant("acme"), whole).unwrap();
        assert_eq!(kind(permits.operator_bodies.try_acquire(&tenant("acme"), 4 << 10)), None);
        assert_eq!(
            kind(permits.operator_bodies.try_acquire(&tenant("acme"), (4 << 10) + 1)),
            Some(Kind::TenantBusy)
        );
    }

    #[tokio::test]
    async fn tenants_together_leave_connections_for_operators() {
        let permits = permits(&RequestLimits { tenant_share: 50, ..RequestLimits::default() });
        let connection = async |name: &str| permits.connections.acquire(&tenant(name), 1).await;
        // Of eight there are five for tenants, and four for one of them.
        let mut held = Vec::new();
        for name in ["acme", "acme", "acme", "acme", "umbrella"] {
            held.push(connection(name).await);
        }
        let mut sixth = Box::pin(connection("umbrella"));
        assert!(futures::poll!(sixth.as_mut()).is_pending());
        held.pop();
        sixth.await;
    }
}
