"""Prometheus with the rules of deploy/observability, and a watcher of statements that wait for locks."""

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter

from servers import AS_NOBODY, Failed, TOP, free_port, own_folder

# A month is minutes long here.
FOR = "10s"
LOCK_SAMPLE_SECONDS, LOCK_SAMPLES = 3, 4


class Prometheus:
    """It stays at the real time. Without the program, alerts are not checked."""

    def __init__(self, folder, product):
        self.folder, self.port, self.process = own_folder(folder / "prometheus"), free_port(), None
        self.checked_at = time.time()
        self.is_there = shutil.which("prometheus") is not None
        rules = (TOP / "deploy/observability/alerts.yaml").read_text()
        self.rules = re.sub(r"^(\s+for:) \S+$", rf"\1 {FOR}", rules, flags=re.M)
        self.write_targets(product)
        self.write_rules(self.rules)

    def write_targets(self, product):
        """Names the processes whose metrics are read, with their cells if there are several."""
        jobs = {f"unslide-{kind}": [] for kind in product.kinds.values()}
        for name, kind in product.kinds.items():
            labels = {"cell": product.cell_of[name].name} if len(product.cells) > 1 and kind != "door" else {}
            jobs[f"unslide-{kind}"].append({"targets": [f"127.0.0.1:{product.admin_ports[name]}"], "labels": labels})
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "5s", "scrape_timeout": "5s", "evaluation_interval": "2s"}, "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": job, "static_configs": targets} for job, targets in jobs.items()]}))

    def write_rules(self, rules):
        (self.folder / "rules.yml").write_text(rules)

    def start(self):
        if not self.is_there:
            print("month: no prometheus (Debian's package prometheus): alerts are not checked", flush=True)
            return
        with open(self.folder.parent / "prometheus.log", "ab") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--web.enable-lifecycle", "--log.level=warn"],
                stdout=log, stderr=log, cwd=self.folder, **AS_NOBODY)

    def reload(self, rules):
        self.write_rules(rules)
        if not self.process:
            return
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/-/reload", method="POST"), timeout=30).read()

    def fired(self) -> set[str]:
        """Returns the names of the alerts that fired since the last question."""
        seconds = int(time.time() - self.checked_at) + 1
        self.checked_at = time.time()
        query = urllib.parse.quote(f'max by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{seconds}s]))')
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?query={query}", timeout=30) as answer:
            return {one["metric"]["alertname"] for one in json.load(answer)["data"]["result"]}

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()


class LockWatcher:
    """Notes statements that wait for a lock of a table or row. It counts samples: the clock of the month jumps."""

    def __init__(self, postgres):
        self.postgres, self.seen, self.blocked, self.is_on = postgres, {}, [], True
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            time.sleep(LOCK_SAMPLE_SECONDS)
            try:
                self.sample()
            except (Failed, subprocess.SubprocessError):
                self.seen = {}

    def sample(self):
        found = self.postgres.ask("SELECT pid || ' ' || extract(epoch FROM query_start), left(regexp_replace(query, '\\s+', ' ', 'g'), 120) "
                                  "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event IN ('relation', 'tuple', 'transactionid')")
        waiting = dict(line.split("|", 1) for line in found.stdout.splitlines() if "|" in line)
        self.seen = {key: self.seen.get(key, 0) + 1 for key in waiting}
        self.blocked += [waiting[key] for key, count in self.seen.items() if count == LOCK_SAMPLES]

    def take(self) -> list[str]:
        taken, self.blocked = self.blocked, []
        return taken


class Logs:
    """Counts what services log at warning and above, by message without its numbers."""

    def __init__(self, folder, product):
        self.folder, self.product, self.read, self.levels = folder, product, {}, Counter()

    def take(self) -> Counter:
        """Returns the counts of service, level and message since the last question."""
        found = Counter()
        for name in self.product.kinds:
            with open(self.folder / f"{name}.log", "rb") as log:
                log.seek(self.read.get(name, 0))
                lines = log.readlines()
                self.read[name] = log.tell()
            for line in lines:
                try:
                    entry = json.loads(line)
                except ValueError:
                    entry = {"level": "ERROR", "message": line.decode(errors="replace").strip()}
                self.levels[name, entry["level"]] += 1
                if entry["level"] in ("WARN", "ERROR"):
                    found[name, entry["level"], re.sub(r"[0-9]+", "N", entry["message"])[:100]] += 1
        return found
