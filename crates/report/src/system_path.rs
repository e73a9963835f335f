//! Finds the images of the operating system by their paths.
//!
//! Paths come from the device: they decide which symbols are shown and requested first, never whom
//! to trust.

/// Returns true for a path of the operating system: under /System, /usr/lib or /Library/Apple, in the root
/// of a simulator's runtime, in a debugger's DeviceSupport folder, or in a Cryptex.
#[must_use]
pub fn is_system_path(path: &str) -> bool {
    const ROOTS: [&str; 3] = ["/System/", "/usr/lib/", "/Library/Apple/"];
    const FOLDERS: [&str; 5] =
        ["/RuntimeRoot/", ".simruntime/", "Simulator.sdk/", "DeviceSupport/", "/Cryptexes/"];
    path.starts_with('/')
        && (ROOTS.iter().any(|root| path.starts_with(root)) || FOLDERS.iter().any(|f| path.contains(f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_images_are_told_by_their_paths() {
        for path in [
            "/System/Library/Frameworks/UIKit.framework/UIKit",
            "/usr/lib/system/libsystem_kernel.dylib",
            "/Library/Apple/System/Library/CoreServices/a",
            "/Volumes/iOS_21A342/Library/Developer/CoreSimulator/Profiles/Runtimes/iOS 17.0.simruntime/Contents/Resources/usr/lib/libobjc.A.dylib",
            "/Library/Developer/CoreSimulator/RuntimeRoot/usr/lib/libobjc.A.dylib",
            "/Applications/Xcode.app/Contents/Developer/Platforms/iPhoneSimulator.platform/Developer/SDKs/iPhoneSimulator.sdk/System/a",
            "/Users/me/Library/Developer/Xcode/iOS DeviceSupport/17.0/Symbols/usr/lib/dyld",
            "/private/preboot/Cryptexes/OS/System/Library/Frameworks/WebKit.framework/WebKit",
        ] {
            assert!(is_system_path(path), "{path}");
        }
        for path in [
            "/private/var/containers/Bundle/Application/0F1E/Shop.app/Shop",
            "/usr/libexec/thing",
            "/usr/local/lib/libz.dylib",
            "/Systems/a",
            "System/a",
            "Shop",
            "",
        ] {
            assert!(!is_system_path(path), "{path}");
        }
    }
}
