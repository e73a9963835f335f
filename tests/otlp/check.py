#!/usr/bin/env python3
"""Sends logs with OpenTelemetry's exporter for Python, and asks the server for the reports.

    check.py URL KEY [PUBLIC-KEY] [--sent]

KEY has the scopes reports:write and reports:read. Exit 0 if every check passed. With --sent, only the exporter's result counts.
"""
import json
import sys
import time
import urllib.error
import urllib.request
import uuid

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

STORED_SECONDS = 60
APP = "com.example.shop"


class Recorder:
    """An exporter that keeps the results of the one behind it."""

    def __init__(self, exporter):
        self.exporter, self.results = exporter, []

    def export(self, batch):
        result = self.exporter.export(batch)
        self.results.append(result.name)
        return result

    def shutdown(self):
        self.exporter.shutdown()

    def force_flush(self, timeout_millis=30_000):
        return True


def apple_text(incident):
    return (
        f"Incident Identifier: {incident}\nHardware Model:      iPhone14,2\nProcess:         Shop [4242]\n"
        f"Path:            /private/var/Shop.app/Shop\nIdentifier:      {APP}\nVersion:         2.4.1 (241)\n"
        "Code Type:       ARM-64\nReport Version:  104\n\nException Type:  EXC_BAD_ACCESS (SIGSEGV)\nCrashed Thread:  0\n\n"
        "Thread 0 Crashed:\n0   Shop    0x0000000100004010 0x100000000 + 16400\n\nBinary Images:\n"
        "0x100000000 - 0x10000ffff Shop arm64 <70b89f2716343580a69557cdb41d7743> /private/var/Shop.app/Shop\n"
    )


def send(endpoint, headers, compression):
    """Sends an ordinary log and a crash. Returns the crash's id and the results of the exporter."""
    recorder = Recorder(OTLPLogExporter(endpoint=endpoint, headers=headers, compression=compression))
    resource = Resource.create({"service.name": APP, "service.version": "2.4.1", "app.installation.id": "i-1"})
    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(SimpleLogRecordProcessor(recorder))
    logger = provider.get_logger("io.example.crash")
    incident = str(uuid.uuid4())
    logger.emit(LogRecord(timestamp=time.time_ns(), severity_number=SeverityNumber.INFO, body="an ordinary log"))
    logger.emit(LogRecord(
        timestamp=time.time_ns(), severity_number=SeverityNumber.FATAL, event_name="app.crash",
        attributes={"exception.type": "EXC_BAD_ACCESS", "exception.stacktrace": apple_text(incident), "session.id": "s-1"},
    ))
    provider.shutdown()
    return incident, recorder.results


def wait_for_report(url, key, incident):
    """Returns the app of a report once it is stored, or an empty text."""
    end = time.monotonic() + STORED_SECONDS
    request = urllib.request.Request(f"{url}/v1/reports/{incident}", headers={"Authorization": f"Bearer {key}"})
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read()).get("system", {}).get("CFBundleIdentifier", "")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        time.sleep(0.5)
    return ""


def main():
    words = [word for word in sys.argv[1:] if word != "--sent"]
    url, key = words[0].rstrip("/"), words[1]
    doors = [(f"{url}/otlp/v1/logs", {"authorization": f"Bearer {key}"})]
    if len(words) > 2:
        doors.append((f"{url}/i/{words[2]}/v1/logs", {}))
    failed = 0
    for door, (endpoint, headers) in enumerate(doors):
        for compression in (Compression.NoCompression, Compression.Gzip):
            incident, results = send(endpoint, headers, compression)
            passed = results == ["SUCCESS", "SUCCESS"]
            if passed and "--sent" not in sys.argv:
                passed = wait_for_report(url, key, incident) == APP
            failed += not passed
            # The endpoint has a key.
            print(f"{'ok' if passed else 'FAILED'}  {['API key', 'public key'][door]}, {compression.name}: {results} {incident}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
