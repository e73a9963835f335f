// swift-tools-version:5.9
import PackageDescription

let package = Package(
    name: "UnslideUpload",
    platforms: [.iOS(.v13), .macOS(.v10_15), .tvOS(.v13), .watchOS(.v6)],
    products: [
        .library(name: "UnslideUpload", targets: ["UnslideUpload"]),
        .plugin(name: "UploadSymbols", targets: ["UploadSymbols"]),
    ],
    targets: [
        .target(name: "UnslideUpload", resources: [.copy("PrivacyInfo.xcprivacy")]),
        .plugin(
            name: "UploadSymbols",
            capability: .command(
                intent: .custom(verb: "upload-symbols", description: "Upload the dSYMs of an archive to Unslide"),
                permissions: [.allowNetworkConnections(scope: .all(), reason: "It uploads dSYMs to your Unslide server.")]
            )
        ),
        .testTarget(name: "UnslideUploadTests", dependencies: ["UnslideUpload"], resources: [.copy("answers.py")]),
    ]
)
