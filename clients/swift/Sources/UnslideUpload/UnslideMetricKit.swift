#if canImport(MetricKit) && !os(tvOS) && !os(watchOS)
import Foundation
import MetricKit

/// Sends MetricKit's diagnostics to Unslide, for apps without KSCrash. Keep the object as long as the app runs.
@available(iOS 14.0, macOS 12.0, *)
public final class UnslideMetricKit: NSObject, MXMetricManagerSubscriber {
    private let sender: UnslideSender
    private let payloads = UnslideWaitingPayloads(folder: UnslideWaitingPayloads.standardFolder)
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
        sendWaiting()
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
        sendWaiting()
        reports = Task { [sender, payloads] in
            let encoder = JSONEncoder()
            for await report in manager.diagnosticReports {
                guard let body = try? encoder.encode(report) else { continue }
                // The system does not deliver a report twice.
                await payloads.keep(body)
                await payloads.send(with: sender)
            }
        }
    }
    #endif

    private static func makeSender(url: URL) -> UnslideSender {
        UnslideSender(url: url, key: nil, timeout: 15, usesExpensiveNetworks: true)
    }

    /// Sends what a failure or the end of the app left behind.
    private func sendWaiting() {
        Task { [sender, payloads] in await payloads.send(with: sender) }
    }

    deinit {
        if let reports {
            reports.cancel()
        } else {
            MXMetricManager.shared.remove(self)
        }
    }

    public func didReceive(_ received: [MXDiagnosticPayload]) {
        let bodies = received.map { $0.jsonRepresentation() }
        Task { [sender, payloads] in
            for body in bodies {
                // The system does not deliver a payload twice.
                await payloads.keep(body)
            }
            await payloads.send(with: sender)
        }
    }
}
#endif
