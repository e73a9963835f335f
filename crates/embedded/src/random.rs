//! Random texts for passwords and ids.

use crate::error::{At, Error};
use std::io::Read;
use std::path::Path;

/// `N` random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; N];
    std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes)).at("read", source)?;
    Ok(bytes)
}

/// Thirty-two random hexadecimal digits (128 bits), for passwords and keys.
///
/// # Errors
/// Where the operating system gives no random bytes.
pub fn random_text() -> Result<String, Error> {
    Ok(random_bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A Kafka cluster id: sixteen random bytes as URL-safe base64 without padding.
pub(crate) fn cluster_id() -> Result<String, Error> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = random_bytes::<16>()?;
    // Kafka refuses ids that begin with a dash, which a command line would take for an option.
    bytes[0] &= 0x7f;
    let bits = u128::from_be_bytes(bytes);
    let digit = |shift: u32| char::from(DIGITS[usize::try_from(bits >> shift & 63).unwrap_or(0)]);
    let mut id: String = (0..21).map(|i| digit(122 - 6 * i)).collect();
    id.push(char::from(DIGITS[usize::try_from((bits & 3) << 4).unwrap_or(0)]));
    Ok(id)
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
        assert!(!id.starts_with('-'));
    }
}
