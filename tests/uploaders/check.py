#!/usr/bin/env python3
"""Uploads dSYMs with real clients of other products, and asks the server whether the symbols are ready.

    check.py --clients FOLDER --fixtures FOLDER --url URL --tenant TENANT --app APP --key KEY [--sentry-token TOKEN]
             [--only TEXT] [--quick]

KEY has the scopes symbols:write and symbols:read. The rule for faults: a client that ends well has lost nothing, and one
that reports a failure succeeds when it runs again. `--quick` leaves the faults out. Exit 0 if every check passed.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile

import clients
from proxy import Fault, Proxy

MIB = 1 << 20
READY_SECONDS = 60


class Api:
    """The server's own API, as its operators use it."""

    def __init__(self, base, key):
        self.base, self.key = base, key

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def wait_ready(self, ids):
        """Waits until all debug ids are ready. Returns an empty text, or the states that they have at the end."""
        end = time.monotonic() + READY_SECONDS
        while True:
            status, answer = self.call("POST", "/v1/symbols/check", {"debug_ids": ids})
            if status == 200 and answer["ready"]:
                return ""
            if time.monotonic() > end:
                return f"{status} {answer}"
            time.sleep(0.5)


    def wait_for_frames(self, report_id):
        """Waits until a report is stored. Returns its frames with source lines."""
        end = time.monotonic() + READY_SECONDS
        while True:
            status, answer = self.call("GET", f"/v1/reports/{report_id}/source-context")
            if status == 200 or time.monotonic() > end:
                return answer["frames"] if status == 200 else []
            time.sleep(0.5)


class Checks:
    """The outcomes so far."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def expect(self, name, is_right, detail=""):
        if is_right:
            self.passed += 1
            print(f"pass  {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL  {name}: {' | '.join(str(detail).strip().splitlines())[-600:]}", flush=True)
        return is_right


class Suite:
    def __init__(self, arguments):
        self.arguments, self.checks = arguments, Checks()
        self.lab = tempfile.mkdtemp(prefix="uploaders-")
        self.clients = clients.Clients(arguments.clients, os.path.join(self.lab, "home"))
        self.target = clients.Target(arguments.url, arguments.tenant, arguments.app, arguments.key, arguments.sentry_token)
        self.api = Api(self.target.base, arguments.key)

    def fresh(self, names=("app", "kit"), padding=0):
        folder = tempfile.mkdtemp(dir=self.lab)
        return folder, clients.copy_fresh(self.arguments.fixtures, folder, names, padding)

    def expect_ready(self, name, ids):
        return self.checks.expect(f"{name}: symbols are ready", (states := self.api.wait_ready(ids)) == "", states)

    def expect_upload(self, name, result, ids):
        is_good = self.checks.expect(f"{name}: ends well", not result.reports_failure(), f"{result.status} {result.text}")
        return is_good and self.expect_ready(name, ids)

    def check_client(self, name, upload, path, takes_archives):
        folder, ids = self.fresh()
        if not self.expect_upload(f"{name}, upload", upload(self.target, folder), ids):
            return
        again = upload(self.target, folder)
        self.expect_upload(f"{name}, again", again, ids)
        if name.startswith("sentry-cli"):
            self.checks.expect(f"{name}, again: sends nothing", "Nothing to upload" in again.text, again.text)
        if takes_archives:
            folder, ids = self.fresh()
            self.expect_upload(f"{name}, archive", upload(self.target, self.packed(folder)), ids)
        folder, ids = self.fresh(("app",), 24 * MIB)
        self.expect_upload(f"{name}, 24 MiB", upload(self.target, folder, timeout=300), ids)
        if name.startswith("sentry"):
            folder, ids = self.fresh()
            self.expect_upload(f"{name}, without --wait", upload(self.target, folder, arguments=()), ids)
        if name.startswith("sentry") and self.target.sentry_token.startswith("sntrys_"):
            folder, ids = self.fresh()
            self.expect_upload(f"{name}, token alone", upload(self.target, folder, only_token=True), ids)
        if name.startswith("sentry-cli"):
            self.check_source_maps(name, int(name[-1]))
            self.check_source_files(name, upload)
        self.check_refusals(name, upload)
        if not self.arguments.quick:
            self.check_faults(name, upload, path)

    def check_source_maps(self, name, major):
        folder, build = tempfile.mkdtemp(dir=self.lab), os.urandom(4).hex()
        clients.write_bundle(folder)
        ids = [clients.bundle_id(self.target.app, "1.2", build)]
        for label, release in (("source maps", "1.2"), ("source maps again", f"{self.target.app}@1.2+{build}")):
            result = self.clients.sentry_maps(major, self.target, folder, release, build)
            self.expect_upload(f"{name}, {label}", result, ids)

    def check_source_files(self, name, upload):
        """Uploads a dSYM with its source files while the tenant keeps them, and reads the lines around a frame."""
        folder = tempfile.mkdtemp(dir=self.lab)
        debug_id, source, address = clients.build_dsym(folder)
        self.api.call("PUT", "/v1/sources", {"enabled": True})
        _, before = self.api.call("GET", "/v1/sources")
        result = upload(self.target, os.path.join(folder, "cart.dSYM"), arguments=("--include-sources", "--wait-for", "60"))
        self.expect_upload(f"{name}, source files", result, [debug_id])
        _, after = self.api.call("GET", "/v1/sources")
        self.checks.expect(f"{name}, source files: are stored", after["bundles"] == before["bundles"] + 1, after)
        report = clients.crash_report(self.target.app, debug_id, address)
        status, answer = self.api.call("POST", "/v1/reports", report)
        self.checks.expect(f"{name}, source files: a report is taken", status in (200, 202), answer)
        frames = self.api.wait_for_frames(report["report"]["id"])
        expected = {"first_line": 1, "lines": clients.CART.splitlines()}
        found = [(frame["path"], frame["line"], frame["context"]) for frame in frames]
        self.checks.expect(f"{name}, source files: a frame has its lines", found == [(source, 3, expected)], found)
        self.api.call("PUT", "/v1/sources", {"enabled": False})

    def check_refusals(self, name, upload):
        folder, ids = self.fresh()
        refused = upload(self.target.changed(key="no-such-key", sentry_token="no-such-key"), folder)
        is_told = refused.status not in (0, "timeout")
        self.checks.expect(f"{name}, bad key: fails", is_told, f"{refused.status} {refused.text}")
        if name.startswith("sentry"):
            foreign = upload(self.target.changed(tenant="no-such-tenant", sentry_token=self.target.key), folder)
            self.checks.expect(f"{name}, other tenant: fails", foreign.status not in (0, "timeout"), foreign.text)
        self.expect_upload(f"{name}, good key after a bad one", upload(self.target, folder), ids)
        folder, _ = self.fresh(("app",))
        for file in clients.dwarf_files(folder):
            os.truncate(file, os.path.getsize(file) // 3)
        cut = upload(self.target, folder)
        is_orderly = cut.status != "timeout" and "could not parse JSON" not in cut.text
        self.checks.expect(f"{name}, file that is cut: ends", is_orderly, cut.text)

    def check_faults(self, name, upload, path):
        faults = [
            ("connection cut", path, "cut", MIB, 24 * MIB), ("answer lost", path, "swallow", None, 0),
            ("half an answer", path, "halve", None, 0), ("503 once", path, "status", 503, 0),
            ("slow begin", path, "delay", 3, 0),
        ]
        if name.startswith("sentry"):
            faults += [("503 on assemble", r"difs/assemble/$", "status", 503, 0),
                       ("assemble answer lost", r"difs/assemble/$", "swallow", None, 0)]
        for what, where, kind, value, padding in faults:
            folder, ids = self.fresh(("app",) if padding else ("app", "kit"), padding)
            with Proxy(self.target.base) as proxy:
                proxy.fault = Fault("PUT" if name.startswith("posthog") else "POST", where, kind, value)
                result = upload(self.target.changed(base=proxy.base, sentry_token=self.target.key), folder, timeout=240)
                is_met = proxy.fault.is_met
            label = f"{name}, {what}"
            self.checks.expect(f"{label}: is met", is_met, result.text)
            if result.reports_failure():
                self.checks.expect(f"{label}: ends", result.status != "timeout", result.text)
                self.expect_upload(f"{label}, again", upload(self.target, folder, timeout=240), ids)
            else:
                self.expect_ready(label, ids)

    def packed(self, folder):
        path = os.path.join(tempfile.mkdtemp(dir=self.lab), "dSYMs.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for parent, _, files in os.walk(folder):
                for file in (os.path.join(parent, file) for file in files):
                    archive.write(file, os.path.relpath(file, folder))
        return path

    def run(self):
        try:
            for name, upload, path, takes_archives, _ in self.clients.list():
                if self.arguments.only in name:
                    self.check_client(name, upload, path, takes_archives)
        finally:
            shutil.rmtree(self.lab, ignore_errors=True)
        print(f"{self.checks.passed} passed, {self.checks.failed} failed")
        return 0 if self.checks.passed and not self.checks.failed else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("clients", "fixtures", "url", "tenant", "app", "key"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sentry-token")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    sys.exit(Suite(parser.parse_args()).run())


if __name__ == "__main__":
    main()
