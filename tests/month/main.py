"""A month of three tenants in minutes: scripts/month. Sends, breaks and repairs by a table of days, and checks promises each day."""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import reports
from clock import Clock
from events import EVENTS
from product import Failed, NOBODY, Product, Tenant

WHOLE_DAYS, SHORT_DAYS = 30, 6
# The store asks PostgreSQL for the time once a minute.
CLOCK_SECONDS = 62
APPS = {"north": ["com.example.north", "com.example.north.beta"], "south": ["com.example.south"], "west": ["com.example.west"]}
PEOPLE = 25


class Month:
    def __init__(self, folder: Path, program: Path, seed: int, days: int):
        self.folder, self.days = folder, days
        self.seed = random.Random(seed)
        self.clock = Clock(folder, days)
        self.product = Product(folder, program, self.clock)
        self.apps, self.builds = APPS, {app: [] for apps in APPS.values() for app in apps}
        self.tenants, self.deleted, self.promises = {}, [], []
        self.further = {"symbolizer-2": "symbolizer", "indexer-2": "indexer", "builder-2": "builder"}
        self.memory = []

    # Steps

    def start_product(self):
        self.product.start()
        for name, kind in self.further.items():
            self.product.start_service(name, kind)
        for tenant in self.tenants.values():
            tenant.base = self.product.facts["api_url"].rstrip("/")

    def begin(self):
        self.start_product()
        for slug in APPS:
            self.product.run("tenant", "create", slug)
            made = self.product.run("key", "create", "--tenant", slug, "--name", "all", "--scope",
                                    "symbols:write,symbols:read,reports:write,reports:read,tenant:admin")
            key = re.search(r"unslide_\S+", made.stdout)[0]
            self.tenants[slug] = Tenant(slug, self.product.facts["api_url"], key)

    def people(self, tenant):
        return [person for person in (f"{tenant.slug}-p{n}" for n in range(PEOPLE)) if person not in tenant.erased]

    def send_reports(self, share=1.0, by_kafka=False):
        """Sends crashes of each app's newest builds, and sessions of those who had none."""
        for tenant in self.tenants.values():
            batch, sessions = [], []
            for app in APPS[tenant.slug]:
                for build in self.builds[app][-2:]:
                    for _ in range(max(1, int(self.seed.randrange(8, 24) * share))):
                        person, bug = self.seed.choice(self.people(tenant)), self.seed.choice(build.bugs)
                        at = self.clock.now() - timedelta(seconds=self.seed.randrange(1, 3000))
                        crash = reports.crash(build, self.seed, at, person, bug)
                        batch.append(crash)
                        tenant.reports[crash["report"]["id"].lower()] = {
                            "app": app, "version": build.version, "person": person, "bug": bug}
                        sessions.append(reports.session(build, self.seed, at, person, crashed=True))
                        sessions.extend(reports.session(build, self.seed, at, person, crashed=False) for _ in range(3))
            if by_kafka:
                self.produce(tenant, batch)
                continue
            answer = tenant.request("POST", "/v1/reports", body=batch)
            if answer["refused"]:
                raise Failed(f"reports were refused: {json.dumps(answer)[:400]}")
            tenant.request("POST", "/v1/sessions", body=sessions)

    def produce(self, tenant, batch):
        """Sends reports as a gateway does: records of the topic, with the clock of the month."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.product.facts["kafka_bootstrap"], "enable.idempotence": True})
        for one in batch:
            producer.produce("crash.reports", json.dumps(one).encode(), key=f"{tenant.slug}/{one['report']['id']}",
                             headers={"tenant": tenant.slug}, timestamp=int(self.clock.now().timestamp() * 1000))
        if producer.flush(60):
            raise Failed("Kafka did not take the records of a gateway")

    def stop_process(self, pid):
        for each in self.tree(pid):
            os.kill(each, signal.SIGSTOP)

    def continue_process(self, pid):
        for each in self.tree(pid):
            os.kill(each, signal.SIGCONT)

    @staticmethod
    def tree(pid):
        children = subprocess.run(["pgrep", "--parent", str(pid)], capture_output=True, text=True).stdout.split()
        return [pid, *map(int, children)]

    def wait_until(self, what, condition, seconds=120):
        """Waits for a promise. Its condition returns something true once it holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(1)
        raise Failed(f"after {seconds} s it does not hold that {what}")

    def settle(self):
        """Waits until each report that was sent is stored."""
        for tenant in self.tenants.values():
            def missing():
                stored = {one["id"] for one in tenant.pages("/v1/reports")}
                return set(tenant.reports) - stored
            self.wait_until(f"all reports of {tenant.slug} are stored", lambda: not missing())

    # Promises

    def check(self, day):
        for name, promise in PROMISES.items():
            try:
                broken = promise(self)
            except Failed as error:
                broken = str(error)
            self.promises.append((day, name, broken))
            if broken:
                print(f"day {day}: BROKEN: {name}: {broken}", flush=True)
        self.memory.append(self.product.memory())

    def run(self):
        began = time.monotonic()
        self.begin()
        column = 1 if self.days == WHOLE_DAYS else 2
        for day in range(self.days):
            for event in EVENTS:
                if event[column] == day:
                    print(f"day {day}: {event[0].__name__.replace('_', ' ')}", flush=True)
                    try:
                        event[0](self)
                    except Failed as error:
                        self.promises.append((day, event[0].__name__.replace("_", " "), str(error)))
                        print(f"day {day}: BROKEN: {error}", flush=True)
            self.send_reports()
            self.settle()
            self.clock.advance(timedelta(days=1))
            moved = time.monotonic()
            self.check(day)
            time.sleep(max(0, moved + CLOCK_SECONDS - time.monotonic()))
            print(f"day {day}: checked after {time.monotonic() - began:.0f} s", flush=True)


def stored_once(month):
    """Each report that was sent is listed once, and no other is."""
    for tenant in month.tenants.values():
        listed = [one["id"] for one in tenant.pages("/v1/reports")]
        if sorted(listed) != sorted(tenant.reports):
            lost, more = set(tenant.reports) - set(listed), set(listed) - set(tenant.reports)
            return f"{tenant.slug}: {len(lost)} are missing, {len(more)} are not known, {len(listed) - len(set(listed))} are doubled"
    return None


def figures_agree(month):
    """The counts of versions and of groups equal what was sent."""
    for tenant in month.tenants.values():
        for app in APPS[tenant.slug]:
            sent = [one for one in tenant.reports.values() if one["app"] == app]
            versions = {one["version"]: one["reports"] for one in tenant.pages(f"/v1/apps/{app}/versions") if one["reports"]}
            expected = {}
            for one in sent:
                expected[one["version"]] = expected.get(one["version"], 0) + 1
            if versions != expected:
                return f"{app}: the page says {versions}, sent were {expected}"
            counted = sum(one["reports"] for one in tenant.pages(f"/v1/groups?app={app}"))
            if counted != len(sent):
                return f"{app}: its groups count {counted} reports, sent were {len(sent)}"
    return None


def audited(month):
    """`unslide audit` finds one outcome for each record."""
    ran = month.product.run("audit", check=False)
    return None if ran.returncode == 0 else f"exit code {ran.returncode}: {ran.stdout[-600:]}{ran.stderr[-300:]}"


def nothing_of_the_erased(month):
    """No table, log or file has the marker of a person who was erased, or of a deleted tenant's people."""
    markers = [person for tenant in [*month.tenants.values(), *month.deleted] for person in tenant.erased]
    markers += [f"{tenant.slug}-p{n}" for tenant in month.deleted for n in range(PEOPLE)]
    if not markers:
        return None
    pattern = "|".join(rf"(marker-)?{re.escape(marker)}" for marker in markers)
    places = [(table, month.product.sql(f"SELECT string_agg(row::text, ' ') FROM {table} row WHERE row::text ~ $pattern${pattern}$pattern$"))
              for table in month.product.sql("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace").split()]
    places += [(log.name, log.read_text(errors="replace")) for log in month.folder.glob("*.log")]
    for place, text in places:
        found = re.search(rf"({pattern})(?![0-9])", text)
        if found:
            return f"{place} has {text[max(0, found.start() - 80):found.end() + 40]!r}"
    objects = subprocess.run(["grep", "--recursive", "--text", "--files-with-matches", "--extended-regexp", rf"({pattern})([^0-9]|$)",
                              month.folder / "data" / "s3"], capture_output=True, text=True)
    return f"object storage has {objects.stdout.splitlines()[0]}" if objects.stdout else None


def nothing_ended(month):
    """No process ended by itself."""
    dead = month.product.dead()
    return f"ended: {', '.join(dead)}" if dead else None


def servers_agree(month):
    """`unslide fsck` finds no disagreement."""
    ran = month.product.run("fsck", check=False)
    return None if ran.returncode == 0 else f"exit code {ran.returncode}: {ran.stdout[-600:]}{ran.stderr[-300:]}"


PROMISES = {function.__doc__.rstrip("."): function for function in
            [stored_once, figures_agree, audited, nothing_of_the_erased, nothing_ended, servers_agree]}


def print_table(month):
    print("\n| promise | days kept | days broken |\n|---|---|---|")
    names = list(dict.fromkeys(name for _, name, _ in month.promises))
    for name in names:
        days = [(day, broken) for day, other, broken in month.promises if other == name]
        broken = [str(day) for day, why in days if why]
        print(f"| {name} | {len(days) - len(broken)} | {', '.join(broken) or '–'} |")
    if len(month.memory) > 2:
        print("\n| process | resident MB on the second day | on the last |\n|---|---|---|")
        for name in month.memory[-1]:
            print(f"| {name} | {month.memory[1].get(name, 0) // 1024} | {month.memory[-1][name] // 1024} |")


def main():
    parser = argparse.ArgumentParser(prog="scripts/month", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help=f"{SHORT_DAYS} days instead of {WHOLE_DAYS}")
    parser.add_argument("--keep", action="store_true", help="keep the folder with data and logs")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("month: needs root, to run the services as a user without rights")
    folder = Path(tempfile.mkdtemp(prefix="unslide-month.", dir=os.environ.get("TMPDIR", "/var/tmp")))
    folder.chmod(0o755)
    os.chown(folder, NOBODY, NOBODY)
    month = Month(folder, Path(os.environ["UNSLIDE_BIN"]), arguments.seed, SHORT_DAYS if arguments.short else WHOLE_DAYS)
    print(f"month: seed {arguments.seed}, {month.days} days, in {folder}", flush=True)
    try:
        month.run()
    finally:
        print_table(month)
        month.product.stop()
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if any(broken for _, _, broken in month.promises) else 0)


main()
