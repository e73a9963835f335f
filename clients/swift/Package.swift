// swift-tools-version:5.9
import PackageDescription

let package = Package(
    name: "UnslideUpload",
    platforms: [.iOS(.v13), .macOS(.v10_15), .tvOS(.v13), .watchOS(.v6)],
    products: [.library(name: "UnslideUpload", targets: ["UnslideUpload"])],
    targets: [
        .target(name: "UnslideUpload", resources: [.copy("PrivacyInfo.xcprivacy")]),
        .testTarget(name: "UnslideUploadTests", dependencies: ["UnslideUpload"], resources: [.copy("answers.py")]),
    ]
)
