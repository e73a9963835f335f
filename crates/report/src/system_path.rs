//! Finds the images of the operating system by their paths, or by their file names if a report has no paths.
//!
//! Paths come from the device: they decide which symbols are shown and requested first, never whom
//! to trust.

/// Returns true for a path of the operating system: under /System, /usr/lib or /Library/Apple, in the root of a
/// simulator's runtime, in a debugger's DeviceSupport folder, or in a Cryptex. The same for Rosetta, for Xcode's own
/// libraries, and for Apple's libraries that a build copies into an app.
#[must_use]
pub fn is_system_path(path: &str) -> bool {
    const ROOTS: [&str; 9] = [
        "/System/",
        "/usr/lib/",
        "/Library/Apple/",
        "/usr/libexec/rosetta/",
        "/usr/libexec/oah/",
        "/var/db/oah/",
        "/private/var/db/oah/",
        // The developer disk image of a device.
        "/Developer/usr/",
        "/Developer/Library/",
    ];
    const FOLDERS: [&str; 5] =
        ["/RuntimeRoot/", ".simruntime/", "Simulator.sdk/", "DeviceSupport/", "/Cryptexes/"];
    path.starts_with('/')
        && (ROOTS.iter().any(|root| path.starts_with(root))
            || FOLDERS.iter().any(|folder| path.contains(folder))
            || path.starts_with("/Library/Developer/") && !path.contains("/data/Containers/")
            || is_of_mounted_runtime(path)
            || is_of_xcode(path)
            || is_copied_library(path))
}

/// Returns true for a file of a simulator's runtime in a log whose paths were shortened: the runtime is a mounted volume.
/// An app can run from a volume, too, but its files lie in its bundle.
fn is_of_mounted_runtime(path: &str) -> bool {
    path.strip_prefix("/Volumes/VOLUME/").is_some_and(|inside| !inside.contains(".app/"))
}

/// Returns true for a file of Xcode itself, such as `/Applications/Xcode_26.1.app/Contents/Developer/usr/lib/…`.
fn is_of_xcode(path: &str) -> bool {
    let is_xcode = |folder: &str| {
        let rest = folder.strip_prefix("Xcode").and_then(|rest| rest.strip_suffix(".app"));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    path.split_once("/Contents/").is_some_and(|(app, _)| app.rsplit('/').next().is_some_and(is_xcode))
}

/// Returns true for a library of Apple's that a build copies into the `Frameworks` of an app: Swift's runtime before it was
/// part of the system, the compiler's sanitizers, and XCTest. No developer has their dSYMs.
fn is_copied_library(path: &str) -> bool {
    const TEST_LIBRARIES: [&str; 8] = [
        "XCTest",
        "XCTestCore",
        "XCTestSupport",
        "XCTAutomationSupport",
        "XCUIAutomation",
        "XCUnit",
        "libXCTestSwiftSupport.dylib",
        "libXCTestBundleInject.dylib",
    ];
    let Some((_, file)) = path.rsplit_once("/Frameworks/") else { return false };
    let name = file.rsplit('/').next().unwrap_or_default();
    is_swift_runtime(file) || is_sanitizer(file) || TEST_LIBRARIES.contains(&name)
}

fn is_swift_runtime(file: &str) -> bool {
    file.starts_with("libswift") && file.ends_with(".dylib") && !file.contains('/')
}

fn is_sanitizer(file: &str) -> bool {
    file.starts_with("libclang_rt.") && file.ends_with(".dylib") && !file.contains('/')
}

/// Returns true for a file name that only a library of the operating system has, for images without a path. Names of
/// frameworks are not unique enough: see [`is_framework_name`].
#[must_use]
pub fn is_system_file_name(name: &str) -> bool {
    const UNIQUE_LIBRARIES: [&str; 13] = [
        "dyld",
        "dyld_sim",
        "libdyld.dylib",
        "libSystem.B.dylib",
        "libobjc.A.dylib",
        "libdispatch.dylib",
        "libxpc.dylib",
        "libc++abi.dylib",
        "libc++.1.dylib",
        "libcorecrypto.dylib",
        "libRosettaRuntime",
        "libMainThreadChecker.dylib",
        "libBacktraceRecording.dylib",
    ];
    UNIQUE_LIBRARIES.contains(&name)
        || name.starts_with("libsystem_")
        || name.starts_with("com.apple.")
        || is_swift_runtime(name)
        || is_sanitizer(name)
}

/// Returns true for the name of a framework of the operating system. An app may have a framework with such a name, so the
/// name counts only if neither a path nor an address says more.
#[must_use]
pub fn is_framework_name(name: &str) -> bool {
    const KNOWN_FRAMEWORKS: [&str; 60] = [
        "AVFAudio",
        "AVFCore",
        "AVFoundation",
        "AVKit",
        "Accelerate",
        "AppKit",
        "AttributeGraph",
        "AudioToolbox",
        "BackBoardServices",
        "BaseBoard",
        "BoardServices",
        "CFNetwork",
        "Combine",
        "CoreAutoLayout",
        "CoreBluetooth",
        "CoreData",
        "CoreFoundation",
        "CoreGraphics",
        "CoreImage",
        "CoreLocation",
        "CoreMedia",
        "CoreML",
        "CoreMotion",
        "CoreServices",
        "CoreText",
        "CoreUI",
        "CoreVideo",
        "Foundation",
        "FrontBoardServices",
        "GraphicsServices",
        "HIToolbox",
        "IOKit",
        "IOSurface",
        "ImageIO",
        "JavaScriptCore",
        "LaunchServices",
        "MapKit",
        "MediaPlayer",
        "Metal",
        "MetalKit",
        "MobileCoreServices",
        "Network",
        "PhotosUI",
        "QuartzCore",
        "RunningBoardServices",
        "SceneKit",
        "Security",
        "SpringBoardServices",
        "StoreKit",
        "SwiftData",
        "SwiftUI",
        "SwiftUICore",
        "SystemConfiguration",
        "UIFoundation",
        "UIKit",
        "UIKitCore",
        "UIKitServices",
        "VectorKit",
        "WebCore",
        "WebKit",
    ];
    KNOWN_FRAMEWORKS.contains(&name)
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

    #[test]
    fn libraries_of_simulators_rosetta_and_xcode_are_the_systems() {
        for path in [
            "/Volumes/VOLUME/*/QuartzCore.framework/QuartzCore",
            "/Volumes/VOLUME/*/libdispatch.dylib",
            "/usr/libexec/rosetta/runtime",
            "/Library/Apple/usr/libexec/oah/libRosettaRuntime",
            "/private/var/db/oah/1a2b/3c4d/Shop.aot",
            "/Applications/Xcode-beta.app/Contents/Developer/usr/lib/libMainThreadChecker.dylib",
            "/Applications/Xcode_26.1.app/Contents/SharedFrameworks/DVTFoundation.framework/DVTFoundation",
            "/Developer/Library/PrivateFrameworks/DTDDISupport.framework/libViewDebuggerSupport.dylib",
            "/Library/Developer/CommandLineTools/usr/lib/libclang.dylib",
        ] {
            assert!(is_system_path(path), "{path}");
        }
        for path in [
            "/Volumes/VOLUME/*/Shop.app/Contents/MacOS/Shop",
            "/Volumes/Shop/Shop.app/Contents/Frameworks/Cart.framework/Cart",
            "/Applications/Xcodes.app/Contents/MacOS/Xcodes",
            "/Developer/Projects/Shop/build/Shop.app/Contents/MacOS/Shop",
            "/Library/Developer/CoreSimulator/Devices/1/data/Containers/Bundle/Application/2/Shop.app/Shop",
            "/Users/me/Library/Developer/Xcode/DerivedData/Shop/Build/Products/Debug/Shop.app/Contents/MacOS/Shop",
            "/Users/USER/Library/Developer/CoreSimulator/Devices/1/data/Containers/Bundle/Application/2/Shop.app/Shop",
        ] {
            assert!(!is_system_path(path), "{path}");
        }
    }

    #[test]
    fn apples_libraries_in_the_frameworks_of_an_app_are_the_systems() {
        for path in [
            "/private/var/containers/Bundle/Application/1/Shop.app/Frameworks/libswift_Concurrency.dylib",
            "/Applications/Shop.app/Contents/Frameworks/libswiftCore.dylib",
            "/private/var/containers/Bundle/Application/1/Shop.app/PlugIns/A.appex/Frameworks/libswiftos.dylib",
            "/private/var/containers/Bundle/Application/1/Shop.app/Frameworks/libclang_rt.asan_ios_dynamic.dylib",
            "/private/var/containers/Bundle/Application/1/Shop.app/Frameworks/XCTest.framework/XCTest",
        ] {
            assert!(is_system_path(path), "{path}");
        }
        for path in [
            "/private/var/containers/Bundle/Application/1/Shop.app/Frameworks/Cart.framework/Cart",
            "/private/var/containers/Bundle/Application/1/Shop.app/Frameworks/libswiftly.framework/libswiftly",
            "/private/var/containers/Bundle/Application/1/Shop.app/libswiftCore.dylib",
        ] {
            assert!(!is_system_path(path), "{path}");
        }
    }

    #[test]
    fn names_without_paths_are_the_systems_if_no_app_has_them() {
        for name in
            ["dyld_sim", "libsystem_c.dylib", "libswift_Concurrency.dylib", "com.apple.CoreFoundation"]
        {
            assert!(is_system_file_name(name), "{name}");
        }
        for name in ["Shop", "UIKitCore", "libz.1.dylib", "libswift", ""] {
            assert!(!is_system_file_name(name), "{name}");
        }
        assert!(is_framework_name("UIKitCore") && !is_framework_name("Shop"));
    }
}
