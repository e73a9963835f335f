import Foundation
import XCTest
@testable import UnslideUpload

private struct Report: Codable, Equatable, Sendable {
    var id = "1"
    var address = UInt64.max - 1
    var log = ""
}

final class UnslideUploadTests: XCTestCase {
    private var server: AnswerServer!

    override func setUp() async throws {
        server = try AnswerServer()
        await UnslidePause.shared.reset()
    }

    override func tearDown() {
        server.stop()
    }

    private func upload(_ path: String, timeout: TimeInterval = 15) -> UnslideUpload<Report> {
        UnslideUpload(url: server.url(path), timeout: timeout, onRefused: { _ in })
    }

    private func failure(_ path: String, timeout: TimeInterval = 15) async -> Error? {
        do {
            _ = try await upload(path, timeout: timeout).process(Report())
            return nil
        } catch {
            return error
        }
    }

    func testAnAcceptedReportArrivesWithAllItsBytes() async throws {
        let sent = Report(log: "a line")
        let returned = try await upload("/accepted").process(sent)
        XCTAssertEqual(returned, sent)
        let request = try XCTUnwrap(server.requests().first)
        XCTAssertEqual(try JSONDecoder().decode(Report.self, from: request.body), sent)
        XCTAssertEqual(request.headers["User-Agent"], "unslide-upload/1.0")
        XCTAssertEqual(request.headers["Accept"], "application/json")
        XCTAssertNil(request.headers["Cookie"])
    }

    func testARefusedReportIsDroppedWithItsReason() async throws {
        let reasons = Reasons()
        let stage = UnslideUpload<Report>(url: server.url("/refused"), onRefused: { reasons.add($0) })
        let returned = try await stage.process(Report())
        XCTAssertNil(returned)
        XCTAssertEqual(reasons.all(), ["another app"])
    }

    func testATooLargeReportIsDropped() async throws {
        let answered = try await upload("/large").process(Report())
        XCTAssertNil(answered)
        let large = Report(log: String(repeating: "x", count: UnslideSender.maximumUnpackedBytes))
        let unsent = try await upload("/accepted").process(large)
        XCTAssertNil(unsent)
        XCTAssertEqual(server.requests().count, 1)
    }

    func testAReportIsLargeByWhatIsSent() async throws {
        let log = String(repeating: "x", count: UnslideSender.maximumBodyBytes)
        let returned = try await upload("/accepted").process(Report(log: log))
        // Foundation on Linux has no compressor.
        let isPacked = gzip(Data()) != nil
        XCTAssertEqual(returned != nil, isPacked)
        XCTAssertEqual(server.requests().count, isPacked ? 1 : 0)
    }

    func testTheKeysOfARunNameTheProcess() {
        XCTAssertEqual(UnslideRun.keys["process_id"], Int(getpid()))
    }

    func testABodyIsKnownAgainByAllItsBytes() {
        let body = Data(repeating: 7, count: 1_000)
        var other = body
        other[999] = 8
        XCTAssertEqual(UnslideBodyHash(body), UnslideBodyHash(Data(body)))
        XCTAssertNotEqual(UnslideBodyHash(body), UnslideBodyHash(other))
    }

    func testAPayloadWaitsUntilItWasTaken() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }
        let sender = { (path: String) in
            UnslideSender(url: self.server.url(path), key: nil, timeout: 15, usesExpensiveNetworks: true)
        }
        let waiting = UnslideWaitingPayloads(folder: folder)
        await waiting.keep(Data("{}".utf8))
        await waiting.send(with: sender("/busy"))
        await UnslidePause.shared.reset()
        // The next start of the app.
        await UnslideWaitingPayloads(folder: folder).send(with: sender("/accepted"))
        await UnslideWaitingPayloads(folder: folder).send(with: sender("/accepted"))
        XCTAssertEqual(server.requests().map(\.path), ["/busy", "/accepted"])
    }

    func testADamagedBodyIsKeptOnceAndThenDropped() async throws {
        let first = await failure("/damaged")
        XCTAssertEqual(first as? UnslideError, .failed(status: 400, text: "the form ends before its last boundary"))
        let second = try await upload("/damaged").process(Report())
        XCTAssertNil(second)
    }

    func testAnUnknownKeyStopsAllStages() async {
        let first = await failure("/unknown")
        XCTAssertEqual(first as? UnslideError, .failed(status: 401, text: "unknown key"))
        let second = await failure("/accepted")
        XCTAssertEqual(second as? UnslideError, .stopped(until: .distantFuture))
        XCTAssertEqual(server.requests().count, 1)
    }

    func testABusyServerIsLeftAloneUntilItsMoment() async throws {
        _ = await failure("/busy")
        let second = await failure("/accepted")
        guard case .stopped = second as? UnslideError else { return XCTFail("\(String(describing: second))") }
        try await Task.sleep(nanoseconds: 1_200_000_000)
        let later = try await upload("/accepted").process(Report())
        XCTAssertNotNil(later)
    }

    func testAServerThatDoesNotAnswerIsAskedOnce() async {
        server.stop()
        let first = await failure("/accepted")
        guard case .unreachable = first as? UnslideError else { return XCTFail("\(String(describing: first))") }
        let second = await failure("/accepted")
        guard case .stopped = second as? UnslideError else { return XCTFail("\(String(describing: second))") }
    }

    func testASilentServerTimesOut() async {
        let error = await failure("/silent", timeout: 1)
        XCTAssertEqual(error as? UnslideError, .unreachable(.timedOut))
    }

    func testARedirectIsNoSuccess() async {
        let error = await failure("/moved")
        guard case .failed(301, _) = error as? UnslideError else { return XCTFail("\(String(describing: error))") }
    }

    func testABodyThatIsNoTextIsShownWithReplacements() async {
        let error = await failure("/latin")
        XCTAssertEqual(error as? UnslideError, .failed(status: 500, text: "r\u{fffd}p\u{fffd}tez"))
    }

    func testNoErrorHoldsTheKey() async {
        let stage = UnslideUpload<Report>(url: server.url("/unknown"), key: "usp_secret", onRefused: { _ in })
        do {
            _ = try await stage.process(Report())
            XCTFail("the key is unknown")
        } catch {
            XCTAssertFalse("\(error) \(error.localizedDescription)".contains("usp_secret"))
        }
        XCTAssertEqual(server.requests().first?.headers["Authorization"], "Bearer usp_secret")
    }

    func testACancelledTaskSendsNothingTwice() async {
        let stage = self.upload("/silent")
        let task = Task { try await stage.process(Report()) }
        try? await Task.sleep(nanoseconds: 300_000_000)
        task.cancel()
        do {
            _ = try await task.value
            XCTFail("the task was cancelled")
        } catch {
            XCTAssertTrue(error is CancellationError)
        }
        XCTAssertLessThanOrEqual(server.requests().count, 1)
    }

    func testTheChecksumIsThatOfGzip() {
        // The check value of CRC-32/ISO-HDLC.
        XCTAssertEqual(crc32(Data("123456789".utf8)), 0xcbf4_3926)
    }
}

/// Collects texts from any thread.
private final class Reasons: @unchecked Sendable {
    private let lock = NSLock()
    private var texts: [String] = []

    func add(_ text: String) {
        lock.lock()
        defer { lock.unlock() }
        texts.append(text)
    }

    func all() -> [String] {
        lock.lock()
        defer { lock.unlock() }
        return texts
    }
}

/// The process that plays answers.
private final class AnswerServer {
    struct Request {
        let path: String
        let headers: [String: String]
        let body: Data
    }

    private let process = Process()
    private let log: URL
    private let port: Int

    init() throws {
        log = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let script = try XCTUnwrap(Bundle.module.url(forResource: "answers", withExtension: "py"))
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", script.path, log.path]
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        port = try XCTUnwrap(Int(line.trimmingCharacters(in: .whitespacesAndNewlines)))
    }

    func url(_ path: String) -> URL {
        URL(string: "http://127.0.0.1:\(port)\(path)")!
    }

    func requests() -> [Request] {
        guard let text = try? String(contentsOf: log, encoding: .utf8) else { return [] }
        return text.split(separator: "\n").compactMap { line in
            let parts = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [Any]
            guard let path = parts?[0] as? String, let headers = parts?[1] as? [String: String],
                let hex = parts?[2] as? String
            else { return nil }
            return Request(path: path, headers: headers, body: Data(bytes(ofHex: hex)))
        }
    }

    func stop() {
        if process.isRunning {
            process.terminate()
            process.waitUntilExit()
        }
        try? FileManager.default.removeItem(at: log)
    }

    private func bytes(ofHex hex: String) -> [UInt8] {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap { at in
            UInt8(String(decoding: digits[at...(at + 1)], as: UTF8.self), radix: 16)
        }
    }
}
