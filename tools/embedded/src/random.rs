//! Random texts for passwords and ids.

use crate::error::{AtPath, Error};
use std::io::Read;
use std::path::Path;

/// Returns `N` random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; N];
    std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes)).at("read", source)?;
    Ok(bytes)
}

/// Returns thirty-two random hexadecimal digits (128 bits), for passwords and keys.
///
/// # Errors
/// Returns an error if the operating system gives no random bytes.
pub fn random_text() -> Result<String, Error> {
    Ok(random_bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a Kafka cluster id: URL-safe base64 of sixteen bytes, without padding. Hexadecimal digits are
/// digits of it too; the last one is of two bits, here zero.
pub(crate) fn cluster_id() -> Result<String, Error> {
    let digits: String = random_text()?.chars().take(21).collect();
    Ok(digits + "A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_and_have_their_length() {
        let (a, b) = (random_text().unwrap(), random_text().unwrap());
        assert_eq!((a.len(), b.len()), (32, 32));
        assert_ne!(a, b);
        let id = cluster_id().unwrap();
        assert_eq!(id.len(), 22);
    }
}
