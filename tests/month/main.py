"""A month of three tenants in minutes: scripts/month. Sends, breaks and repairs by a table of days, and checks promises each day."""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import plants
import senders
from clock import Clock
from events import EVENTS
from monitor import LockWatcher, Prometheus
from product import Product
from promises import PEOPLE, PROMISES
from servers import Failed, own_folder
from tenants import Tenant

WHOLE_DAYS, SHORT_DAYS = 30, 6
# The store asks PostgreSQL for the time once a minute.
CLOCK_SECONDS = 62
APPS = {"north": ["com.example.north", "com.example.north.beta"], "south": ["com.example.south"], "west": ["com.example.west"]}
SCOPES = "symbols:write,symbols:read,reports:write,reports:read,tenant:admin"


class Month:
    def __init__(self, folder: Path, arguments):
        self.folder, self.day = folder, 0
        self.days = 1 if arguments.plant else SHORT_DAYS if arguments.short else WHOLE_DAYS
        self.is_whole = self.days == WHOLE_DAYS
        self.seed = random.Random(arguments.seed)
        # Share of the reports of a batch.
        self.share = 1.0 if self.is_whole else 0.5
        self.clock = Clock(folder, self.days)
        is_oldest = {"oldest": True, "newest": False}.get(arguments.postgres, arguments.seed % 2 == 0)
        self.product = Product(folder, arguments.upgrade_from or Path(os.environ["UNSLIDE_BIN"]), self.clock, is_oldest)
        self.product.next_program = Path(os.environ["UNSLIDE_BIN"]) if arguments.upgrade_from else None
        self.prometheus = Prometheus(folder, self.product.admin_ports)
        self.apps, self.builds = APPS, {app: [] for apps in APPS.values() for app in apps}
        self.tenants, self.deleted, self.promises, self.memory = {}, [], [], []
        self.must_fire, self.may_fire, self.may_last = set(), set(), set()
        self.erased_since_backup = []

    def begin(self):
        self.product.begin()
        self.product.start()
        self.prometheus.start()
        self.locks = LockWatcher(self.product.postgres)
        base = f"http://127.0.0.1:{self.product.api_port}"
        for slug in APPS:
            self.product.run("tenant", "create", slug)
            made = self.product.run("key", "create", "--tenant", slug, "--name", "all", "--scope", SCOPES)
            tenant = self.tenants[slug] = Tenant(slug, base, re.search(r"unslide_\S+", made.stdout)[0])
            tenant.public_key = tenant.request("POST", "/v1/public-keys", body={"name": "apps", "apps": APPS[slug]})["key"]

    def people(self, tenant):
        return [person for person in (f"{tenant.slug}-p{n}" for n in range(PEOPLE)) if person not in tenant.erased]

    def send_one(self):
        """Sends some reports of one build."""
        senders.send_lines(self, self.tenants["north"], self.builds[APPS["north"][0]][-1])

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
            self.wait_until(f"all reports of {tenant.slug} are stored",
                            lambda: not set(tenant.reports) - {one["id"] for one in tenant.pages("/v1/reports")})

    def step(self, name, function):
        """Runs an event or a part of the day. A broken one is noted, and the month goes on."""
        began = time.monotonic()
        try:
            function(self)
        except Failed as error:
            self.promises.append((self.day, name, str(error)))
            print(f"day {self.day}: BROKEN: {name}: {error}", flush=True)
        print(f"day {self.day}: {name}, {time.monotonic() - began:.0f} s", flush=True)

    def check(self):
        for name, promise in PROMISES.items():
            try:
                broken = promise(self)
            except (Failed, subprocess.SubprocessError) as error:
                broken = str(error)
            self.promises.append((self.day, name, broken))
            if broken:
                print(f"day {self.day}: BROKEN: {name}: {broken}", flush=True)
        self.memory.append(self.product.memory())

    def run(self):
        for self.day in range(self.days):
            events = [event for event in EVENTS if (event.day if self.is_whole else event.short_day) == self.day]
            self.must_fire = set().union(*(event.must for event in events))
            self.may_fire = set().union(*(event.may for event in events))
            for event in events:
                self.step(event.name(), event.run)
            self.step("reports of the day", senders.send_day)
            self.step("all are stored", Month.settle)
            self.clock.advance(timedelta(days=1))
            moved = time.monotonic()
            self.check()
            time.sleep(max(0, moved + CLOCK_SECONDS - time.monotonic()))

    def print_tables(self):
        print("\n| promise | days kept | days broken |\n|---|---|---|")
        for name in dict.fromkeys(name for _, name, _ in self.promises):
            days = [(day, broken) for day, other, broken in self.promises if other == name]
            broken = [str(day) for day, why in days if why]
            print(f"| {name} | {len(days) - len(broken)} | {', '.join(broken) or '–'} |")
        if len(self.memory) > 2:
            print("\n| process | resident MB on the second day | on the last |\n|---|---|---|")
            for name in self.memory[-1]:
                print(f"| {name} | {self.memory[1].get(name, 0) // 1024} | {self.memory[-1][name] // 1024} |")


def parse():
    parser = argparse.ArgumentParser(prog="scripts/month", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help=f"{SHORT_DAYS} days instead of {WHOLE_DAYS}")
    parser.add_argument("--keep", action="store_true", help="keep the folder with data and logs")
    parser.add_argument("--postgres", choices=["oldest", "newest"], help="the version; without it an even seed takes the oldest")
    parser.add_argument("--upgrade-from", type=Path, metavar="BINARY", help="begin with an older program, and update it under load")
    names = ["all", *(plant.__name__.replace("_", "-") for plant in plants.PLANTS)]
    parser.add_argument("--plant", choices=names, help="plant a fault, or all, and show that the promise breaks")
    return parser.parse_args()


def main():
    arguments = parse()
    if os.geteuid() != 0:
        sys.exit("month: needs root, to run the services as a user without rights")
    folder = own_folder(Path(tempfile.mkdtemp(prefix="unslide-month.", dir=os.environ.get("TMPDIR", "/var/tmp"))))
    month = Month(folder, arguments)
    is_right = False
    try:
        month.begin()
        print(f"month: seed {arguments.seed}, {month.days} days, PostgreSQL {month.product.postgres.version()}, in {folder}", flush=True)
        month.run()
        is_right = plants.run(month, arguments.plant) if arguments.plant else True
    finally:
        month.print_tables()
        month.prometheus.stop()
        month.product.end()
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if is_right and not any(broken for _, _, broken in month.promises) else 1)


main()
