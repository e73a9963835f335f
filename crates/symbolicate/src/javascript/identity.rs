//! The debug id of a JavaScript bundle.

use sha1::{Digest, Sha1};
use unslide_model::DebugId;

/// Namespace of debug ids made from names: `5c0a8d3e-9b1f-5e6a-8f27-3d4c1b7a6e90`.
const NAMESPACE: [u8; 16] =
    [0x5C, 0x0A, 0x8D, 0x3E, 0x9B, 0x1F, 0x5E, 0x6A, 0x8F, 0x27, 0x3D, 0x4C, 0x1B, 0x7A, 0x6E, 0x90];

/// Identity of a bundle without a debug id of its own, known to both the report and the upload of the source
/// map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleIdentity<'b> {
    /// The app's identifier, as in `CFBundleIdentifier`.
    pub app: &'b str,
    /// `ios`, `android` or another system in lower case.
    pub platform: &'b str,
    /// The version that users see.
    pub version: &'b str,
    /// The build number.
    pub build: &'b str,
    /// The bundle's file name, such as `main.jsbundle`.
    pub bundle: &'b str,
}

impl BundleIdentity<'_> {
    /// Returns the debug id: the UUID of version 5 (RFC 9562 §5.5) of app, platform, version, build and
    /// bundle, joined by line feeds.
    #[must_use]
    pub fn debug_id(&self) -> DebugId {
        let name = [self.app, self.platform, self.version, self.build, self.bundle].join("\n");
        let hash = Sha1::new().chain_update(NAMESPACE).chain_update(name).finalize();
        let mut id = [0; 16];
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        id[6] = id[6] & 0x0F | 0x50;
        id[8] = id[8] & 0x3F | 0x80;
        DebugId(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_bundle_never_changes() {
        let identity = BundleIdentity {
            app: "com.example.shop",
            platform: "ios",
            version: "1.2",
            build: "7",
            bundle: "main.jsbundle",
        };
        assert_eq!(identity.debug_id().to_string(), "7e86e071-f8d1-5305-a545-46470a6ba4e7");
        assert_ne!(BundleIdentity { build: "8", ..identity }.debug_id(), identity.debug_id());
    }
}
