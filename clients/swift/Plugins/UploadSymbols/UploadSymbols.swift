import Foundation
import PackagePlugin

/// Uploads the dSYMs of archives with the program `unslide`, and fails unless their symbols are ready.
///
/// The program finds its address and key as always: in `UNSLIDE_URL` and `UNSLIDE_API_KEY`, or in the profile of `unslide login`.
@main
struct UploadSymbols: CommandPlugin {
    func performCommand(context: PluginContext, arguments: [String]) throws {
        let paths = Self.paths(in: arguments)
        guard !paths.isEmpty else {
            throw UploadSymbolsError("Name an archive: swift package upload-symbols build/Shop.xcarchive")
        }
        try Self.upload(paths)
    }

    /// Returns the arguments that are paths. Xcode adds `--target NAME` for each target that is chosen.
    static func paths(in arguments: [String]) -> [String] {
        var extractor = ArgumentExtractor(arguments)
        _ = extractor.extractOption(named: "target")
        return extractor.remainingArguments
    }

    /// Sends what the server lacks, then waits until the symbols are ready.
    static func upload(_ paths: [String]) throws {
        let program = try findProgram()
        try run(program, ["upload"] + paths)
        try run(program, ["symbols", "check", "--wait"] + paths)
    }

    /// Returns the program in `PATH`, or where Homebrew and `install.sh` put it: Xcode has no `PATH` of a shell.
    static func findProgram() throws -> URL {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let home = FileManager.default.homeDirectoryForCurrentUser.path
        let folders = path.split(separator: ":").map(String.init) + ["/opt/homebrew/bin", "/usr/local/bin", home + "/.local/bin"]
        for folder in folders {
            let program = URL(fileURLWithPath: folder).appendingPathComponent("unslide")
            if FileManager.default.isExecutableFile(atPath: program.path) {
                return program
            }
        }
        throw UploadSymbolsError("The program unslide is in none of the folders \(folders.joined(separator: ", ")). Install it first.")
    }

    private static func run(_ program: URL, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        // The host of plugins closes the standard input.
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationReason == .exit, process.terminationStatus == 0 else {
            let command = (["unslide"] + arguments).joined(separator: " ")
            throw UploadSymbolsError("\(command) ended with \(process.terminationStatus)")
        }
    }
}

/// The reason why nothing was uploaded, or symbols are not ready.
struct UploadSymbolsError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
