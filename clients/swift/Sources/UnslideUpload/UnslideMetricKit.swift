#if canImport(MetricKit) && !os(tvOS) && !os(watchOS)
import Foundation
import MetricKit

/// Sends MetricKit's diagnostics to Unslide, for apps without KSCrash. Keep the object as long as the app runs.
@available(iOS 14.0, macOS 12.0, *)
public final class UnslideMetricKit: NSObject, MXMetricManagerSubscriber {
    private let sender: UnslideSender

    /// - Parameter url: The whole URL `https://…/i/usp_…`.
    public init(url: URL) {
        sender = UnslideSender(url: url, key: nil, timeout: 15, usesExpensiveNetworks: true)
        super.init()
        MXMetricManager.shared.add(self)
    }

    deinit {
        MXMetricManager.shared.remove(self)
    }

    public func didReceive(_ payloads: [MXDiagnosticPayload]) {
        let bodies = payloads.map { $0.jsonRepresentation() }
        Task { [sender] in
            for body in bodies {
                // The system does not deliver a payload twice, and nothing is stored here: a failure loses it.
                _ = try? await sender.send(body)
            }
        }
    }
}
#endif
