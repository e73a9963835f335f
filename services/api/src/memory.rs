//! The bounds on bodies and on answers that are in memory at the same time: what clients send and what
//! that unpacks to; and what is answered, until the last byte is written.

use crate::permits::{Permit, Permits, Resource};
use crate::problem::Problem;
use bytes::Bytes;
use unslide_model::TenantId;

/// Room for so many bytes, given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    permit: Permit,
    bytes: u64,
}

/// Room for `bytes` of a tenant's bodies.
///
/// # Errors
/// [`Kind::TenantBusy`](crate::problem::Kind::TenantBusy) and
/// [`Kind::Overloaded`](crate::problem::Kind::Overloaded) where there is none left: the client may come
/// again.
pub fn reserve(permits: &Permits, tenant: &TenantId, bytes: u64) -> Result<Room, Problem> {
    room(permits, tenant, Resource::Bodies, bytes)
}

/// Room for an answer of `bytes` to a tenant; bodies take none of it, nor answers of theirs.
///
/// # Errors
/// As [`reserve`].
pub fn answer(permits: &Permits, tenant: &TenantId, bytes: u64) -> Result<Room, Problem> {
    room(permits, tenant, Resource::Answers, bytes)
}

fn room(permits: &Permits, tenant: &TenantId, of: Resource, bytes: u64) -> Result<Room, Problem> {
    let mut room = Room { permit: permits.take(tenant, of, 0)?, bytes: 0 };
    room.grow(bytes)?;
    Ok(room)
}

/// Bytes of bodies, or of answers, that there is room for now.
#[must_use]
pub fn held(permits: &Permits, of: Resource) -> u64 {
    permits.held(of) << 10
}

impl Room {
    /// Bytes that it is for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Room for so many bytes more.
    ///
    /// # Errors
    /// As [`reserve`].
    pub fn grow(&mut self, bytes: u64) -> Result<(), Problem> {
        let all = self.bytes.saturating_add(bytes);
        let kib = all.div_ceil(1_024) - self.bytes.div_ceil(1_024);
        self.permit.grow(u32::try_from(kib).unwrap_or(u32::MAX))?;
        self.bytes = all;
        Ok(())
    }

    /// Bytes that keep the room until nobody has any of them.
    #[must_use]
    pub fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Held { bytes, _room: self })
    }
}

struct Held<B> {
    bytes: B,
    _room: Room,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Held<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::problem::Kind;

    /// Permits of which one tenant has this many bytes of bodies.
    pub fn permits_of(bytes: u64) -> Permits {
        let limits =
            Limits { bodies: 1, ingest_bytes: bytes, ingest_unpacked_bytes: bytes, ..Limits::default() };
        crate::permits::tests::permits(&limits)
    }

    /// A room, with nothing in it, that can grow to so many bytes where another holds one KiB.
    pub fn room(bytes: u64) -> (Room, Room) {
        let (permits, tenant) = (permits_of(bytes + 1_024), TenantId::new("acme").unwrap());
        (reserve(&permits, &tenant, 0).unwrap(), reserve(&permits, &tenant, 1).unwrap())
    }

    #[test]
    fn room_is_counted_in_whole_kib_and_kept_by_the_bytes() {
        let (permits, tenant) = (permits_of(4 << 10), TenantId::new("acme").unwrap());
        let mut room = reserve(&permits, &tenant, 1).unwrap();
        room.grow(1_023).unwrap();
        assert_eq!(held(&permits, Resource::Bodies), 1 << 10);
        room.grow(1).unwrap();
        assert_eq!(held(&permits, Resource::Bodies), 2 << 10);
        assert_eq!(reserve(&permits, &tenant, 3 << 10).unwrap_err().kind(), Kind::TenantBusy);
        let mut bytes = room.hold(vec![0; 1_025]);
        let last = bytes.split_off(1_024);
        drop(bytes);
        assert_eq!(held(&permits, Resource::Bodies), 2 << 10, "some of them are not written yet");
        drop(last);
        assert_eq!(held(&permits, Resource::Bodies), 0);
    }
}
