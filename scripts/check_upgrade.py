"""The load of scripts/check-upgrade: PROGRAM FACTS. Sends reports and sessions to an older `unslide dev` and asks for lists,
has the program of this commit migrate its database meanwhile, and counts."""

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
REPORTS_BEFORE = int(os.environ.get("UNSLIDE_UPGRADE_REPORTS", "2000"))
WRITERS = 4
REPORT = {
    "report": {"version": "3.4.0", "type": "standard", "timestamp": "2026-11-20T08:00:00Z"},
    "system": {"CFBundleIdentifier": "com.acme.shop", "CFBundleShortVersionString": "1.0", "CFBundleVersion": "100", "system_name": "iOS"},
    "binary_images": [],
    "crash": {"error": {"type": "signal", "signal": {"name": "SIGABRT", "signal": 6}}, "threads": []},
}


def send(path, body=None):
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(base + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def report():
    return REPORT | {"report": REPORT["report"] | {"id": str(uuid.uuid4())}}


def session():
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"id": str(uuid.uuid4()), "installation": "b1946ac92492d234", "app": "com.acme.shop", "version": "1.0", "started_at": now}


sent, answers, failed, over = [], [], [], threading.Event()


def request(path, body=None):
    """Returns true if the request succeeds."""
    began = time.monotonic()
    try:
        send(path, body)
    except OSError as error:
        failed.append(f"{path}: {error}")
        return False
    answers.append(time.monotonic() - began)
    return True


def write():
    while not over.is_set():
        one = report()
        if request("/v1/reports", one):
            sent.append(one["report"]["id"])
        request("/v1/sessions", session())
        time.sleep(0.05)


def read():
    while not over.is_set():
        for path in ("/v1/apps", "/v1/reports?limit=50", "/v1/groups"):
            request(path)
        time.sleep(0.05)


def fill():
    """Sends the reports that the migration finds, and returns the id of the last."""
    for _ in range(REPORTS_BEFORE // 100):
        reports = [report() for _ in range(100)]
        while True:
            try:
                send("/v1/reports", reports)
                break
            except urllib.error.HTTPError as error:
                if error.code != 429:
                    raise
                time.sleep(int(error.headers["retry-after"]))
    return reports[-1]["report"]["id"]


def wait_stored(ids):
    for one in ids:
        try:
            send(f"/v1/reports/{one}?wait=30s")
        except urllib.error.HTTPError as error:
            sys.exit(f"check-upgrade: the report {one} is not stored: {error}")


wait_stored([fill()])
load = [threading.Thread(target=each, daemon=True) for each in [write] * WRITERS + [read]]
for each in load:
    each.start()
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
for each in load:
    each.join()
wait_stored(sent)
slowest = max(answers, default=0)
print(f"check-upgrade: {applied} migrations in {took:.1f} s, {len(sent)} reports meanwhile, all stored; {len(answers)} requests, "
      f"slowest answer {slowest:.1f} s, {len(failed)} failed")
if failed:
    sys.exit("check-upgrade: requests failed: " + "; ".join(sorted(set(failed))))
