//! A list of binary images as JSON: the `binary_images` of a KSCrash report, or the `usedImages` of an `.ips`
//! file, alone or in their report.

use super::{MOST_IMAGES, ProfileError, ProfileImage, parse_hex};
use serde::Deserialize;
use serde::de::IgnoredAny;
use unslide_model::json::{self, JsonError};

#[derive(Deserialize)]
struct ListingReport {
    #[serde(alias = "usedImages")]
    binary_images: Vec<ListedImage>,
}

/// An image; `.ips` files have the second names.
#[derive(Deserialize)]
struct ListedImage {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    uuid: Option<String>,
    #[serde(alias = "base")]
    image_addr: Option<ListedNumber>,
    #[serde(alias = "size")]
    image_size: Option<ListedNumber>,
}

/// A number, or its hexadecimal digits.
#[derive(Deserialize)]
#[serde(untagged)]
enum ListedNumber {
    Number(u64),
    Text(String),
    Other(IgnoredAny),
}

impl ListedNumber {
    fn parse_value(&self) -> Option<u64> {
        match self {
            ListedNumber::Number(number) => Some(*number),
            ListedNumber::Text(text) => parse_hex(text).or_else(|| text.parse().ok()),
            ListedNumber::Other(_) => None,
        }
    }
}

/// Reads a list of images. Entries without an address are left out.
///
/// # Errors
/// Returns an error if the bytes are no such list.
pub fn read_images(bytes: &[u8]) -> Result<Vec<ProfileImage>, ProfileError> {
    let failed = |error: JsonError| ProfileError::Json(error.to_string());
    let list = |bytes: &[u8]| match bytes.trim_ascii_start().starts_with(b"[") {
        true => json::from_slice::<Vec<ListedImage>>(bytes),
        false => json::from_slice::<ListingReport>(bytes).map(|report| report.binary_images),
    };
    // An .ips file has a header of JSON on its first line.
    let body = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes, |end| &bytes[end..]);
    let listed = list(bytes).or_else(|error| list(body).map_err(|_| error)).map_err(failed)?;
    let images: Vec<ProfileImage> =
        listed.into_iter().filter_map(to_profile_image).take(MOST_IMAGES).collect();
    if images.is_empty() { Err(ProfileError::Empty) } else { Ok(images) }
}

fn to_profile_image(listed: ListedImage) -> Option<ProfileImage> {
    let start = listed.image_addr?.parse_value()?;
    let size = listed.image_size.and_then(|size| size.parse_value()).filter(|size| *size > 0);
    let name = listed.name.unwrap_or_default();
    let path =
        listed.path.unwrap_or_else(|| if name.starts_with('/') { name.clone() } else { String::new() });
    let file = if name.is_empty() { &path } else { &name };
    Some(ProfileImage {
        name: file.rsplit('/').next().unwrap_or_default().to_owned(),
        path,
        debug_id: listed.uuid.and_then(|uuid| uuid.parse().ok()),
        start,
        end: size.map(|size| start.saturating_add(size)),
        kernel: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_both_kinds_are_read_alone_and_in_their_reports() {
        let own = r#"[{"name": "/Applications/Shop.app/Shop", "uuid": "A1B2C3D4-0000-3111-8222-0123456789AB",
            "image_addr": 18446744069414584320, "image_size": "0x100", "cpu_type": 1}, {"name": "no address"}]"#;
        let images = read_images(own.as_bytes()).unwrap();
        assert_eq!(images.len(), 1);
        assert_eq!((images[0].name.as_str(), images[0].start), ("Shop", 0xffff_ffff_0000_0000));
        assert_eq!(images[0].end, Some(0xffff_ffff_0000_0100));
        assert_eq!(read_images(format!("{{\"crash\":{{}},\"binary_images\":{own}}}").as_bytes()), Ok(images));
        let ips = r#"{"usedImages": [{"source": "P", "base": 4096, "size": 16, "name": "Shop", "path": "/x/Shop"}]}"#;
        assert_eq!(read_images(ips.as_bytes()).unwrap()[0].end, Some(4112));
    }

    #[test]
    fn other_documents_are_refused() {
        for bad in ["", "{}", "[]", "[1]", "{\"binary_images\":[]}"] {
            assert!(read_images(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
