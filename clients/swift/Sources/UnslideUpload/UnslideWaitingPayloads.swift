import Foundation

/// Payloads that the system delivers once, in files until Unslide has them.
actor UnslideWaitingPayloads {
    /// The most payloads that wait. The oldest goes if there are more.
    static let maximumCount = 50

    private let folder: URL
    private var isSending = false

    init(folder: URL) {
        self.folder = folder
    }

    /// The folder of this app. The system may delete it if the device lacks room.
    static var standardFolder: URL {
        let caches = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first
        return (caches ?? FileManager.default.temporaryDirectory).appendingPathComponent("UnslideUpload/MetricKit")
    }

    /// Keeps a payload. The names of files have the order of their arrival.
    func keep(_ body: Data) {
        let files = FileManager.default
        try? files.createDirectory(at: folder, withIntermediateDirectories: true)
        let milliseconds = Int(Date().timeIntervalSince1970 * 1_000)
        let file = folder.appendingPathComponent("\(milliseconds)-\(UUID().uuidString).json")
        try? body.write(to: file, options: .atomic)
        for file in waiting().dropLast(Self.maximumCount) {
            try? files.removeItem(at: file)
        }
    }

    /// Sends what waits, the oldest first, and removes what Unslide has or will never take. The first failure ends it: the
    /// rest waits for the next payload or the next start of the app.
    func send(with sender: UnslideSender) async {
        guard !isSending else { return }
        isSending = true
        defer { isSending = false }
        while let file = waiting().first {
            guard let body = try? Data(contentsOf: file) else {
                try? FileManager.default.removeItem(at: file)
                continue
            }
            do {
                _ = try await sender.send(body)
            } catch {
                return
            }
            guard (try? FileManager.default.removeItem(at: file)) != nil else { return }
        }
    }

    private func waiting() -> [URL] {
        let found = try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return (found ?? []).sorted { $0.lastPathComponent < $1.lastPathComponent }
    }
}
