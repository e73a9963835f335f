#if canImport(MetricKit) && !os(tvOS) && !os(watchOS)
import Foundation
import MetricKit

/// Sends MetricKit's diagnostics to Unslide, for apps without KSCrash. Keep the object as long as the app runs.
@available(iOS 14.0, macOS 12.0, *)
public final class UnslideMetricKit: NSObject, MXMetricManagerSubscriber {
    private let sender: UnslideSender
    private var reports: Task<Void, Never>?

    /// Uses `MetricManager` if the system has it, or else `MXMetricManager`: the system delivers each diagnostic to both.
    ///
    /// - Parameter url: The whole URL `https://…/i/usp_…`.
    public init(url: URL) {
        sender = UnslideMetricKit.makeSender(url: url)
        super.init()
        // The framework is part of the first SDK with `MetricManager`.
        #if canImport(StateReporting) && !targetEnvironment(simulator)
        if #available(iOS 27.0, macOS 27.0, visionOS 27.0, *) {
            receiveReports(from: MetricManager())
            return
        }
        #endif
        MXMetricManager.shared.add(self)
    }

    #if canImport(StateReporting) && !targetEnvironment(simulator)
    /// Receives the reports of a manager of the app, which may have domains of states. An app has one manager: two share the
    /// reports between them.
    @available(iOS 27.0, macOS 27.0, visionOS 27.0, *)
    public init(url: URL, manager: MetricManager) {
        sender = UnslideMetricKit.makeSender(url: url)
        super.init()
        receiveReports(from: manager)
    }

    @available(iOS 27.0, macOS 27.0, visionOS 27.0, *)
    private func receiveReports(from manager: MetricManager) {
        reports = Task { [sender] in
            let encoder = JSONEncoder()
            for await report in manager.diagnosticReports {
                // The system does not deliver a report twice, and nothing is stored here: a failure loses it.
                guard let body = try? encoder.encode(report) else { continue }
                _ = try? await sender.send(body)
            }
        }
    }
    #endif

    private static func makeSender(url: URL) -> UnslideSender {
        UnslideSender(url: url, key: nil, timeout: 15, usesExpensiveNetworks: true)
    }

    deinit {
        if let reports {
            reports.cancel()
        } else {
            MXMetricManager.shared.remove(self)
        }
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
