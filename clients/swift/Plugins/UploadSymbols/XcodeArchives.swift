#if canImport(XcodeProjectPlugin)
import Foundation
import PackagePlugin
import XcodeProjectPlugin

extension UploadSymbols: XcodeCommandPlugin {
    /// Uploads the archives that the arguments name, or else the newest one of this project.
    func performCommand(context: XcodePluginContext, arguments: [String]) throws {
        var paths = Self.paths(in: arguments)
        if paths.isEmpty {
            let archive = try newestArchive(of: Set(context.xcodeProject.targets.map { $0.displayName }))
            print("The newest archive of this project is \(archive.path)")
            paths = [archive.path]
        }
        try Self.upload(paths)
    }
}

/// Returns the newest archive of one of these targets: the dSYMs of other projects may belong to another tenant.
private func newestArchive(of targets: Set<String>) throws -> URL {
    let home = FileManager.default.homeDirectoryForCurrentUser
    let folder = home.appendingPathComponent("Library/Developer/Xcode/Archives")
    var newest: (archive: URL, date: Date)?
    // A folder for each day has the archives.
    for day in contents(of: folder) {
        for archive in contents(of: day) where archive.pathExtension == "xcarchive" {
            guard let date = creationDate(of: archive, ifOneOf: targets) else { continue }
            if let other = newest, other.date >= date { continue }
            newest = (archive, date)
        }
    }
    guard let newest else {
        let names = targets.sorted().joined(separator: ", ")
        throw UploadSymbolsError("No archive in \(folder.path) has the name of a target: \(names). Name one as an argument.")
    }
    return newest.archive
}

/// Returns the moment at which an archive was made, or `nil` if neither its scheme nor its app has the name of a target.
private func creationDate(of archive: URL, ifOneOf targets: Set<String>) -> Date? {
    guard
        let data = try? Data(contentsOf: archive.appendingPathComponent("Info.plist")),
        let plist = try? PropertyListSerialization.propertyList(from: data, format: nil),
        let facts = plist as? [String: Any]
    else { return nil }
    let properties = facts["ApplicationProperties"] as? [String: Any]
    let app = URL(fileURLWithPath: properties?["ApplicationPath"] as? String ?? "").deletingPathExtension().lastPathComponent
    let names = [facts["SchemeName"] as? String, facts["Name"] as? String, app].compactMap { $0 }
    return targets.isDisjoint(with: names) ? nil : facts["CreationDate"] as? Date
}

private func contents(of folder: URL) -> [URL] {
    (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
}
#endif
