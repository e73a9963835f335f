//! One line of the list of images: first and last address, name, architecture or version, UUID and path.

use super::frame_line::parse_hex;

/// Architectures as texts have them.
const ARCHITECTURES: [&str; 9] =
    ["arm64", "arm64e", "arm64_32", "armv7", "armv7s", "armv7k", "x86_64", "x86_64h", "i386"];

/// More bytes than an image has.
const IMAGE_BYTES_LIMIT: u64 = 1 << 46;

/// The maximum size of a UUID as text, in bytes.
const UUID_BYTES_LIMIT: usize = 36;

/// An image as the text has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextImage {
    pub start: u64,
    /// The number of bytes; 0 if the text does not have the last address.
    pub size: u64,
    pub name: String,
    pub arch: Option<String>,
    pub uuid: Option<String>,
    pub path: String,
    /// True if `start` is none of the text: only frames name the image.
    pub is_guess: bool,
}

impl TextImage {
    /// Reads a line such as `0x1000 - 0x1fff +Shop arm64  <0123…> /var/Shop.app/Shop`. The last address belongs to the
    /// image.
    pub fn parse_line(text: &str) -> Option<TextImage> {
        let (start, rest) = text.trim().split_once('-')?;
        let start = parse_hex(start)?;
        let rest = rest.trim_start();
        let (end, rest) = rest.split_once(char::is_whitespace)?;
        let end = if end == "???" { None } else { Some(parse_hex(end)?) };
        // Newer systems list frames in no image under `0x0 - 0xffffffffffffffff ???`.
        if start == 0 || end.is_some_and(|end| end.saturating_sub(start) >= IMAGE_BYTES_LIMIT) {
            return None;
        }
        let (named, uuid, path) = split_uuid(rest);
        let named = named.trim().trim_start_matches(['+', '*']);
        let named = without_version(named);
        let (name, arch) = match named.rsplit_once(char::is_whitespace) {
            Some((name, arch)) if ARCHITECTURES.contains(&arch) => (name.trim_end(), Some(arch.to_owned())),
            _ => (named, None),
        };
        if name == "???" && uuid.is_none() && path.trim().trim_matches('?').is_empty() {
            return None;
        }
        Some(TextImage {
            start,
            size: end.map_or(0, |end| end.saturating_sub(start).saturating_add(1)),
            name: name.to_owned(),
            arch,
            uuid,
            path: path.trim().to_owned(),
            is_guess: false,
        })
    }

    /// Returns the names that a text has for the image: its own, and that of the file at its path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [Some(self.name.as_str()), self.path.rsplit('/').next()].into_iter().flatten()
    }

    /// Returns true if the image holds an address.
    pub fn holds_address(&self, address: u64) -> bool {
        self.size > 0 && address >= self.start && address - self.start < self.size
    }
}

/// Returns the text before the UUID, the UUID, and the path after it. A line may lack the UUID, or have other text in its
/// place, such as `<UUID>`.
fn split_uuid(text: &str) -> (&str, Option<String>, &str) {
    let mut placeholder = None;
    for (at, _) in text.match_indices('<') {
        let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
        let rest = rest.get(1..).unwrap_or_default();
        // A UUID is short: looking no further keeps the work linear.
        let end = rest.bytes().take(UUID_BYTES_LIMIT + 1).position(|byte| byte == b'>');
        let Some((uuid, path)) = end.and_then(|end| rest.split_at_checked(end)) else { continue };
        let path = path.strip_prefix('>').unwrap_or(path);
        let digits: String = uuid.chars().filter(|c| *c != '-').collect();
        if digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let is_zero = digits.bytes().all(|byte| byte == b'0');
            return (before, Some(digits).filter(|_| !is_zero), path);
        }
        if path.trim_start().starts_with('/') || uuid.is_empty() {
            placeholder = Some((before, None, path));
        }
    }
    placeholder.unwrap_or_else(|| match text.find(" /") {
        Some(at) => (text.get(..at).unwrap_or(text), None, text.get(at..).unwrap_or_default()),
        None => (text, None, ""),
    })
}

/// Cuts a version in parentheses off.
fn without_version(named: &str) -> &str {
    let named = named.trim_end();
    match named.rsplit_once(" (") {
        Some((name, version)) if version.ends_with(')') => name.trim_end(),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_line_is_read() {
        let id = "debeff4e26534f38e59bc9de7b8daade";
        for (text, name, arch, size) in [
            (
                format!(
                    "  0x10211c000 -        0x1024b3fff App Namespace arm64  <{id}> /var/App.app/App Name"
                ),
                "App Namespace",
                Some("arm64"),
                0x39_8000,
            ),
            (
                format!("0x10211c000 - 0x1024b3fff +org.example.shop (1.3 - 4) <{}> /A", id.to_uppercase()),
                "org.example.shop",
                None,
                0x39_8000,
            ),
            (
                format!("0x10211c000 - 0x1024b3fff +Shop x86_64 (4.9 - 1.0) <{id}> /A"),
                "Shop",
                Some("x86_64"),
                0x39_8000,
            ),
            (
                format!("0x10211c000 -                ??? libA <x>.dylib (1) <{id}> /A"),
                "libA <x>.dylib",
                None,
                0,
            ),
            ("0x10211c000 - 0x1024b3fff  Shop".to_owned(), "Shop", None, 0x39_8000),
        ] {
            let image = TextImage::parse_line(&text).unwrap();
            assert_eq!(
                (image.name.as_str(), image.arch.as_deref(), image.size),
                (name, arch, size),
                "{text}"
            );
            assert_eq!(image.uuid.is_some(), text.contains('/'), "{text}");
        }
    }

    #[test]
    fn a_line_without_a_uuid_has_a_name_and_a_path() {
        for line in [
            "0x10211c000 - 0x1024b3fff Shop arm64 /private/var/Shop.app/Shop",
            "0x10211c000 - 0x1024b3fff Shop arm64 <UUID> /private/var/Shop.app/Shop",
            "0x10211c000 - 0x1024b3fff Shop arm64 <(null)> /private/var/Shop.app/Shop",
            "0x10211c000 - 0x1024b3fff Shop (4.2) <00000000-0000-0000-0000-000000000000> /private/var/Shop.app/Shop",
        ] {
            let image = TextImage::parse_line(line).unwrap();
            assert_eq!((image.name.as_str(), image.uuid), ("Shop", None), "{line}");
            assert_eq!(image.path, "/private/var/Shop.app/Shop", "{line}");
        }
    }

    #[test]
    fn a_range_of_all_addresses_is_no_image() {
        for line in [
            "0x0 - 0xffffffffffffffff ??? (*) <00000000-0000-0000-0000-000000000000> ???",
            "0x0 - 0xffffffffffffffff ???",
            "0x1000 - 0xffffffffffffffff Shop arm64 <> /Shop",
            "0x10211c000 - 0x1024b3fff ??? (*) <00000000-0000-0000-0000-000000000000> ???",
        ] {
            assert_eq!(TextImage::parse_line(line), None, "{line}");
        }
    }

    #[test]
    fn other_lines_are_no_images() {
        for text in ["", "0x1000", "0x1000 - ", "Binary Images:", "x - y z", "0x1000 + 0x2000 x"] {
            assert_eq!(TextImage::parse_line(text), None, "{text}");
        }
    }
}
