"""The load of scripts/check-upgrade: PROGRAM FACTS. Sends reports to an older `unslide dev`, has the program of this
commit migrate its database meanwhile, and counts."""

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

program, facts = sys.argv[1:]
with open(facts) as file:
    facts = json.loads(file.readline())
base, key, config = facts["api_url"].rstrip("/"), facts["api_key"], facts["config"]
REPORTS_BEFORE = 2000
WRITERS = 4
REPORT = {
    "report": {"version": "3.4.0", "type": "standard", "timestamp": "2026-11-20T08:00:00Z"},
    "system": {"CFBundleIdentifier": "com.acme.shop", "CFBundleShortVersionString": "1.0", "CFBundleVersion": "100", "system_name": "iOS"},
    "binary_images": [],
    "crash": {"error": {"type": "signal", "signal": {"name": "SIGABRT", "signal": 6}}, "threads": []},
}


def send(path, body):
    request = urllib.request.Request(base + path, data=body, headers={"authorization": f"Bearer {key}", "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def report():
    return REPORT | {"report": REPORT["report"] | {"id": str(uuid.uuid4())}}


sent, failed, over = [], [], threading.Event()


def write():
    while not over.is_set():
        one = report()
        began = time.monotonic()
        try:
            send("/v1/reports", json.dumps(one).encode())
            sent.append((one["report"]["id"], time.monotonic() - began))
        except (OSError, urllib.error.HTTPError) as error:
            failed.append(f"{error}")
        time.sleep(0.05)


def fill():
    """Sends the reports that the migration finds, and returns the id of the last."""
    for _ in range(REPORTS_BEFORE // 100):
        reports = [report() for _ in range(100)]
        send("/v1/reports", json.dumps(reports).encode())
    return reports[-1]["report"]["id"]


def wait_stored(ids):
    for one in ids:
        request = urllib.request.Request(f"{base}/v1/reports/{one}?wait=30s", headers={"authorization": f"Bearer {key}"})
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except urllib.error.HTTPError as error:
            sys.exit(f"check-upgrade: the report {one} is not stored: {error}")


wait_stored([fill()])
writers = [threading.Thread(target=write, daemon=True) for _ in range(WRITERS)]
for writer in writers:
    writer.start()
time.sleep(2)
began = time.monotonic()
environment = {k: v for k, v in os.environ.items() if not k.startswith("UNSLIDE_")} | {"UNSLIDE_CONFIG": config}
migrated = subprocess.run([program, "migrate"], env=environment, capture_output=True, text=True)
took = time.monotonic() - began
if migrated.returncode != 0:
    sys.exit(f"check-upgrade: migrate ended with {migrated.returncode}:\n{migrated.stdout}{migrated.stderr}")
applied = int(re.search(r"(\d+) of \d+ migrations applied now", migrated.stdout)[1])
time.sleep(5)
over.set()
for writer in writers:
    writer.join()
wait_stored(one for one, _ in sent)
slowest = max(seconds for _, seconds in sent)
print(f"check-upgrade: {applied} migrations in {took:.1f} s, {len(sent)} reports meanwhile, slowest answer {slowest:.1f} s, {len(failed)} failed, all stored")
if failed:
    sys.exit("check-upgrade: requests failed: " + "; ".join(sorted(set(failed))))
