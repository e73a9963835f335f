import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The outcome of a payload that needs no second request.
enum UnslideOutcome: Equatable, Sendable {
    case accepted
    /// Unslide will never take the payload, for this reason.
    case refused(String)
}

/// Sends bodies to one URL and reads the answers.
struct UnslideSender: Sendable {
    /// The most bytes of a body that Unslide takes from a public key: as it is sent, and unpacked.
    static let maximumBodyBytes = 5 << 20
    static let maximumUnpackedBytes = 20 << 20
    /// A smaller body is sent as it is.
    static let minimumCompressedBytes = 8 << 10
    /// The most characters of an answer that become part of an error.
    static let maximumTextLength = 200
    /// Seconds without requests after a failure, if the answer says nothing else.
    static let defaultPause: TimeInterval = 60

    let url: URL
    let key: String?
    let timeout: TimeInterval
    let usesExpensiveNetworks: Bool

    func send(_ body: Data) async throws -> UnslideOutcome {
        try Task.checkCancellation()
        if body.count > Self.maximumUnpackedBytes {
            return .refused("it has \(body.count) bytes, and the limit is \(Self.maximumUnpackedBytes)")
        }
        let packed = body.count >= Self.minimumCompressedBytes ? gzip(body) : nil
        let sent = packed ?? body
        if sent.count > Self.maximumBodyBytes {
            return .refused("it has \(sent.count) bytes as it is sent, and the limit is \(Self.maximumBodyBytes)")
        }
        let server = "\(url.scheme ?? "")://\(url.host ?? ""):\(url.port ?? 0)"
        try await UnslidePause.shared.check(server)
        let answer: UnslideAnswer
        do {
            answer = try await exchange(sent, compressed: packed != nil)
        } catch let error as UnslideError {
            await UnslidePause.shared.stop(server, for: Self.defaultPause)
            throw error
        }
        return try await judge(answer, of: body, from: server)
    }

    private func judge(_ answer: UnslideAnswer, of body: Data, from server: String) async throws -> UnslideOutcome {
        switch answer.status {
        case 200..<300:
            return answer.firstRefusal.map(UnslideOutcome.refused) ?? .accepted
        case 413:
            return .refused(answer.text)
        case 400:
            // The packaging arrived damaged. If that happens twice, it is not the network.
            if await UnslidePause.shared.isSecondFailure(of: body) {
                return .refused(answer.text)
            }
        case 401:
            // No later request of this process has another key.
            await UnslidePause.shared.stop(server, for: .infinity)
        default:
            await UnslidePause.shared.stop(server, for: answer.retryAfter ?? Self.defaultPause)
        }
        throw UnslideError.failed(status: answer.status, text: answer.text)
    }

    private func makeRequest(compressed: Bool) -> URLRequest {
        var request = URLRequest(url: url, timeoutInterval: timeout)
        request.httpMethod = "POST"
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.setValue("application/json", forHTTPHeaderField: "Accept")
        request.setValue("unslide-upload/1.0", forHTTPHeaderField: "User-Agent")
        request.setValue(Self.formatDate(Date()), forHTTPHeaderField: "Date")
        if compressed {
            request.setValue("gzip", forHTTPHeaderField: "Content-Encoding")
        }
        if let key {
            request.setValue("Bearer \(key)", forHTTPHeaderField: "Authorization")
        }
        return request
    }

    /// Formats a date as HTTP does: `Sun, 06 Nov 1994 08:49:37 GMT`.
    static func formatDate(_ date: Date) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: date)
    }

    private func exchange(_ body: Data, compressed: Bool) async throws -> UnslideAnswer {
        let request = makeRequest(compressed: compressed)
        let session = usesExpensiveNetworks ? UnslideSession.everywhere : UnslideSession.cheap
        let running = UnslideTask()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let task = session.uploadTask(with: request, from: body) { data, response, error in
                    continuation.resume(with: Self.readAnswer(data, response, error))
                }
                running.start(task)
            }
        } onCancel: {
            running.cancel()
        }
    }

    private static func readAnswer(_ data: Data?, _ response: URLResponse?, _ error: Error?) -> Result<UnslideAnswer, Error> {
        if let response = response as? HTTPURLResponse, error == nil {
            return .success(UnslideAnswer(response, data ?? Data()))
        }
        // The error of the system has the URL, and so the key. Its code alone goes on.
        let code = (error as? URLError)?.code ?? .badServerResponse
        return .failure(code == .cancelled ? CancellationError() : UnslideError.unreachable(code))
    }
}

/// An answer of Unslide.
struct UnslideAnswer: Sendable {
    let status: Int
    let text: String
    /// The reason for the first refused element of an accepted request.
    let firstRefusal: String?
    /// The seconds of `Retry-After`.
    let retryAfter: TimeInterval?

    private struct Received: Decodable {
        struct Refused: Decodable {
            let detail: String
        }
        let refused: [Refused]
    }

    private struct Problem: Decodable {
        let detail: String?
        let title: String?
    }

    init(_ response: HTTPURLResponse, _ body: Data) {
        status = response.statusCode
        firstRefusal = (try? JSONDecoder().decode(Received.self, from: body))?.refused.first?.detail
        let problem = try? JSONDecoder().decode(Problem.self, from: body)
        // A body that is no UTF-8 gets replacement characters and never fails.
        let whole = problem?.detail ?? problem?.title ?? String(decoding: body, as: UTF8.self)
        text = String(whole.prefix(UnslideSender.maximumTextLength))
        let seconds = response.allHeaderFields.first { name, _ in
            (name as? String)?.caseInsensitiveCompare("Retry-After") == .orderedSame
        }
        retryAfter = (seconds?.value as? String).flatMap(TimeInterval.init)
    }
}

/// Sessions without cookies and caches, which follow no redirect: a redirected POST may become a GET without a body, and a
/// page that answers it would look like success.
enum UnslideSession {
    static let everywhere = make(usesExpensiveNetworks: true)
    static let cheap = make(usesExpensiveNetworks: false)

    private static func make(usesExpensiveNetworks: Bool) -> URLSession {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpShouldSetCookies = false
        configuration.httpCookieStorage = nil
        configuration.urlCache = nil
        #if !canImport(FoundationNetworking)
        configuration.waitsForConnectivity = false
        configuration.allowsExpensiveNetworkAccess = usesExpensiveNetworks
        #endif
        return URLSession(configuration: configuration, delegate: RedirectRefuser(), delegateQueue: nil)
    }
}

private final class RedirectRefuser: NSObject, URLSessionTaskDelegate, @unchecked Sendable {
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}

/// A request that can be cancelled before it has begun.
private final class UnslideTask: @unchecked Sendable {
    private let lock = NSLock()
    private var task: URLSessionTask?
    private var isCancelled = false

    func start(_ started: URLSessionTask) {
        lock.lock()
        defer { lock.unlock() }
        task = started
        started.resume()
        if isCancelled {
            started.cancel()
        }
    }

    func cancel() {
        lock.lock()
        defer { lock.unlock() }
        isCancelled = true
        task?.cancel()
    }
}

/// The pause after a failure, shared by all stages of a process: KSCrash calls a stage once for each of up to a hundred
/// payloads, and each would wait for its own time-out.
actor UnslidePause {
    static let shared = UnslidePause()

    private var until: [String: Date] = [:]
    private var failed: Set<UnslideBodyHash> = []

    /// Throws while nothing may be sent to a server.
    func check(_ server: String) throws {
        if let until = until[server], until > Date() {
            throw UnslideError.stopped(until: until)
        }
    }

    func stop(_ server: String, for seconds: TimeInterval) {
        until[server] = seconds.isFinite ? Date().addingTimeInterval(seconds) : .distantFuture
    }

    /// Ends all pauses, for tests.
    func reset() {
        until = [:]
        failed = []
    }

    /// Returns true if this body could not be read before.
    func isSecondFailure(of body: Data) -> Bool {
        !failed.insert(UnslideBodyHash(body)).inserted
    }
}

/// The hash of a body, in place of megabytes. `Data` itself hashes its beginning alone.
struct UnslideBodyHash: Hashable, Sendable {
    private let count: Int
    private let hash: Int

    init(_ body: Data) {
        var hasher = Hasher()
        body.withUnsafeBytes { hasher.combine(bytes: $0) }
        count = body.count
        hash = hasher.finalize()
    }
}
