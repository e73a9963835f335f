import Foundation

/// Sends each payload of a pipeline to Unslide: crash reports, or summaries of runs.
///
/// `process` has the result that KSCrash 3.0 expects of a stage. It returns the payload after Unslide has it, and `nil` if
/// Unslide will never take it: KSCrash deletes both. It throws if the payload must be kept and sent again later.
public struct UnslideUpload<Payload: Encodable & Sendable>: Sendable {
    private let sender: UnslideSender
    private let onRefused: @Sendable (String) -> Void

    /// - Parameters:
    ///   - url: The whole URL `https://…/i/usp_…` (for summaries of runs with `/runs` at its end), or with `key` the URL of
    ///     an operation of the API such as `https://…/v1/reports`.
    ///   - key: The public key, if it is not in the URL. It is sent as a Bearer token.
    ///   - timeout: Seconds without progress after which a request fails.
    ///   - usesExpensiveNetworks: False to send nothing over mobile networks.
    ///   - onRefused: Called with one line of text when Unslide refuses a payload for good.
    public init(
        url: URL,
        key: String? = nil,
        timeout: TimeInterval = 15,
        usesExpensiveNetworks: Bool = true,
        onRefused: @escaping @Sendable (String) -> Void = { print("Unslide refused a payload: \($0)") }
    ) {
        sender = UnslideSender(
            url: url, key: key, timeout: timeout, usesExpensiveNetworks: usesExpensiveNetworks)
        self.onRefused = onRefused
    }

    /// Sends a payload.
    ///
    /// - Returns: The payload if Unslide has it, `nil` if Unslide refused it for good.
    /// - Throws: `UnslideError` if the payload must be sent again later; `CancellationError` if the task was cancelled.
    public func process(_ payload: Payload) async throws -> Payload? {
        let encoder = JSONEncoder()
        // The same payload has the same bytes, so that the sender knows it again.
        encoder.outputFormatting = .sortedKeys
        switch try await sender.send(encoder.encode(payload)) {
        case .accepted:
            return payload
        case .refused(let reason):
            onRefused(reason)
            return nil
        }
    }
}

/// The reason why a payload must be sent again later. No case holds the URL or the key.
public enum UnslideError: Error, Equatable, Sendable {
    /// Unslide answered with this status and this text.
    case failed(status: Int, text: String)
    /// No answer came, for example without a network.
    case unreachable(URLError.Code)
    /// An earlier request failed, and nothing is sent until this moment.
    case stopped(until: Date)
}
