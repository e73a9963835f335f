"""A month of three tenants in minutes: scripts/month. Sends, breaks and repairs by a table of days, and checks promises each day."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

import people
import plants
import promises
import senders
from backlog import DAYS as BACKLOG_DAYS
from backlog import Backlog, live_a_year
from clock import CLOCK_SECONDS, Clock
from costs import Costs
from events import EVENTS, UPGRADE
from monitor import LockWatcher, Logs, Prometheus
from servers import TOP, own_folder
from world import World

WHOLE_DAYS, SHORT_DAYS = 30, 6
# Reports of the year before, in a whole month and in a short one.
WHOLE_BACKLOG, SHORT_BACKLOG = 200_000, 20_000
BROKERS = 3
APPS = {"north": ["com.example.north", "com.example.north.beta"], "south": ["com.example.south"], "west": ["com.example.west"]}


class Month(World):
    def __init__(self, folder: Path, arguments):
        self.only = arguments.only.split(",") if arguments.only else []
        self.days = 1 if arguments.plant else 2 if self.only else SHORT_DAYS if arguments.short else WHOLE_DAYS
        self.is_whole = self.days == WHOLE_DAYS
        program = Path(os.environ["UNSLIDE_BIN"])
        is_oldest = {"oldest": True, "newest": False}.get(arguments.postgres, arguments.seed % 2 == 0)
        usual = WHOLE_BACKLOG if self.is_whole else 0 if self.only or arguments.plant else SHORT_BACKLOG
        self.backlog = Backlog(usual if arguments.backlog is None else arguments.backlog)
        days = self.days + (BACKLOG_DAYS if self.backlog.of_day else 0)
        super().__init__(folder, APPS, arguments.seed, Clock(folder, days), arguments.upgrade_from or program, is_oldest, BROKERS)
        self.share = 1.0 if self.is_whole else World.share
        self.product.next_program = program if arguments.upgrade_from else None
        self.prometheus = Prometheus(folder, self.product)
        self.logs = Logs(folder, self.product)
        self.promises, self.memory, self.costs = [], [], Costs(self)
        self.must_fire, self.may_fire, self.may_last = set(), set(), set()

    def begin(self):
        super().begin()
        if self.backlog.of_day:
            self.step("a year of reports", live_a_year)
        self.prometheus.start()
        self.locks = LockWatcher(self.product.postgres)
        self.costs.begin()
        if self.days > 1 and (not self.only or people.people_join.__name__ in self.only):
            people.begin(self)

    def step(self, name, function):
        """Runs an event or a part of the day. A broken one is noted, and the month goes on."""
        began = time.monotonic()
        try:
            function(self)
        # A fault of the month itself is one as well, and the days after it still show something.
        except Exception as error:
            traceback.print_exc()
            self.promises.append((self.day, name, str(error) or repr(error)))
            print(f"day {self.day}: BROKEN: {name}: {error!r}", flush=True)
        print(f"day {self.day}: {name}, {time.monotonic() - began:.0f} s", flush=True)

    def check(self):
        for name, promise in promises.PROMISES.items():
            broken = promises.evaluate(promise, self)
            self.promises.append((self.day, name, broken))
            if broken:
                print(f"day {self.day}: BROKEN: {name}: {broken}", flush=True)
        self.memory.append(self.product.memory())
        self.costs.note()

    def events(self):
        """Returns the events of the day. An older program is updated first, so that the newer one lives with what it left."""
        upgrade = [UPGRADE] if self.day == UPGRADE.day and self.product.next_program else []
        if self.only and self.day:
            return upgrade + [event for event in EVENTS if event.run.__name__ in self.only]
        return upgrade + [event for event in EVENTS if (event.day if self.is_whole else event.short_day) == self.day]

    def run(self):
        for self.day in range(self.days):
            events = self.events()
            self.must_fire = set().union(*(event.must for event in events))
            self.may_fire = set().union(*(event.may for event in events))
            for event in events:
                self.step(event.name(), event.run)
            self.step("reports of the day", senders.send_day)
            self.step("all are stored", World.settle)
            self.clock.advance(timedelta(days=1))
            self.check()
            self.clock.settle()

    def print_tables(self):
        print("\n| promise | days kept | days broken |\n|---|---|---|")
        for name in dict.fromkeys(name for _, name, _ in self.promises):
            days = [(day, broken) for day, other, broken in self.promises if other == name]
            broken = [str(day) for day, why in days if why]
            print(f"| {name} | {len(days) - len(broken)} | {', '.join(broken) or '–'} |")
        if len(self.memory) > 2:
            print("\n| process | resident MB on the second day | on the last | lines of errors | of warnings | of information |\n|---|---|---|---|---|---|")
            for name in self.memory[-1]:
                lines = " | ".join(str(self.logs.levels[name, level]) for level in ("ERROR", "WARN", "INFO"))
                print(f"| {name} | {promises.memory_before(self, name) // 1024} | {self.memory[-1][name] // 1024} | {lines} |")
        self.costs.print_table()


def find_program(text: str) -> Path:
    """Returns a program, or builds the one of a commit."""
    if Path(text).is_file():
        return Path(text)
    ran = subprocess.run([TOP / "scripts/build-commit", text], stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        raise argparse.ArgumentTypeError(f"{text} is neither a program nor a commit that builds")
    return Path(ran.stdout.strip())


def parse():
    parser = argparse.ArgumentParser(prog="scripts/month", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help=f"{SHORT_DAYS} days instead of {WHOLE_DAYS}")
    parser.add_argument("--backlog", type=int, metavar="N", help=f"reports of the year before; {WHOLE_BACKLOG}, or {SHORT_BACKLOG} in a short month")
    parser.add_argument("--keep", action="store_true", help="keep the folder with data and logs")
    parser.add_argument("--postgres", choices=["oldest", "newest"], help="the version; without it an even seed takes the oldest")
    parser.add_argument("--only", metavar="EVENT,…", help="two days: these events on the second, such as back_up,restore")
    parser.add_argument("--upgrade-from", type=find_program, metavar="PROGRAM|COMMIT", help="begin with an older program, and update it under load")
    parser.add_argument("--plant", metavar="NAME,…|all", help=f"plant faults, and show that their promises break: {', '.join(plants.names())}")
    return parser.parse_args()


def main():
    arguments = parse()
    # So that its processes end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
