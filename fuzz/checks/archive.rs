//! Any bytes as an upload: unpacked within the limits or refused with a reason.

use std::io::{Cursor, Read};
use unslide_archive::{ArchiveError, Binary, MemberSink, UnpackLimits, unpack_upload};

/// Counts members and throws them away.
#[derive(Default)]
struct Count {
    members: usize,
    bytes: u64,
}

impl MemberSink for Count {
    fn receive_member(&mut self, _: &str, _: Binary, content: &mut dyn Read) -> Result<(), ArchiveError> {
        self.members += 1;
        let mut buffer = [0; 4096];
        loop {
            match content.read(&mut buffer) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(read) => self.bytes += read as u64,
            }
        }
    }

    fn len(&self) -> usize {
        self.members
    }

    fn truncate(&mut self, len: usize) {
        self.members = len;
    }
}

pub fn check(data: &[u8]) {
    let limits = UnpackLimits {
        entries: 1000,
        total_bytes: 32 << 20,
        member_bytes: 8 << 20,
        ..UnpackLimits::default()
    };
    let mut sink = Count::default();
    match unpack_upload(Cursor::new(data), "upload", &limits, &mut sink) {
        Ok(contents) => {
            assert!(contents.entries <= limits.entries && sink.members <= limits.members);
            assert!(sink.bytes <= limits.total_bytes);
        }
        Err(error) => assert!(!error.reason().is_empty()),
    }
}
