"""Faults of servers and services, each for a bounded time while reports come."""

import json
import random
import signal
import threading
import time

import releases
import reports
import senders
from servers import Disk, Failed

BUILDER_DISK_MEGABYTES = 64
# The flood takes five minutes at this rate.
FLOOD_RATE, FLOOD_BATCHES = 2, 12


class Load:
    """An app that sends reports while a fault lasts. A report that no try gets through fails the event."""

    def __init__(self, month):
        self.month, self.is_on, self.error, self.batches = month, True, None, 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        seed = random.Random(self.month.seed.getrandbits(32))
        while self.is_on:
            tenant = seed.choice(list(self.month.tenants.values()))
            build = self.month.builds[seed.choice(self.month.apps[tenant.slug])][-1]
            try:
                senders.send_as_app(self.month, tenant, build)
                self.batches += 1
            except Failed as error:
                self.error = error
                return
            time.sleep(0.5)

    def __enter__(self):
        # A key that an api has seen is known while PostgreSQL is away.
        for tenant in self.month.tenants.values():
            senders.send_as_app(self.month, tenant, self.month.builds[self.month.apps[tenant.slug][0]][-1])
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_on = False
        self.thread.join()
        if self.error:
            raise self.error
        if not self.batches:
            raise Failed("no report was accepted during the fault")


def killed_services(month):
    """Each service is killed and starts again, four times."""
    with Load(month):
        for _ in range(4):
            for name in month.product.kinds:
                month.product.kill_service(name)
                month.product.start([name])


def silent_database(month):
    """PostgreSQL stands still. Reports of apps are accepted meanwhile."""
    with Load(month) as load:
        try:
            month.product.postgres.signal_all(signal.SIGSTOP)
            before = load.batches
            time.sleep(35)
            during = load.batches - before
        finally:
            month.product.postgres.signal_all(signal.SIGCONT)
    expect_accepted(during, "while PostgreSQL was silent")


def slow_database(month):
    """PostgreSQL works for a tenth of the time. Reports of apps are accepted and stored meanwhile."""
    def stored() -> int:
        return sum(len(tenant.listed()) for tenant in month.tenants.values())

    with Load(month) as load:
        batches, reports, end = load.batches, stored(), time.monotonic() + 40
        try:
            while time.monotonic() < end:
                month.product.postgres.signal_all(signal.SIGSTOP)
                time.sleep(0.45)
                month.product.postgres.signal_all(signal.SIGCONT)
                time.sleep(0.05)
        finally:
            month.product.postgres.signal_all(signal.SIGCONT)
        during, came = load.batches - batches, stored() - reports
    expect_accepted(during, "while PostgreSQL was slow")
    if came <= 0:
        raise Failed("no report was stored while PostgreSQL was slow")


def database_failover(month):
    """PostgreSQL's machine is lost, and another one takes over its disk. Reports of apps are accepted meanwhile."""
    with Load(month) as load:
        month.product.postgres.stop(signal.SIGQUIT)
        before = load.batches
        time.sleep(25)
        during = load.batches - before
        month.product.postgres.start()
    expect_accepted(during, "while PostgreSQL was away")


def expect_accepted(batches, when):
    if not batches:
        raise Failed(f"no report of an app was accepted {when}")


def flood(month):
    """A tenant sends far above its rate with a public key. It waits for itself, and no other tenant waits for it."""
    noisy, quiet = month.tenants["south"], month.tenants["west"]
    build, other = (month.builds[month.apps[tenant.slug][0]][-1] for tenant in (noisy, quiet))
    month.settle()
    month.product.run("tenant", "limits", "south", "--units-per-second", str(FLOOD_RATE))
    try:
        for _ in range(FLOOD_BATCHES):
            noisy.send_as_app(json.dumps(senders.make(month, noisy, build, 50)).encode())
        for _ in range(5):
            senders.send_lines(month, quiet, other)
            month.wait_until("a tenant's reports are stored during another one's flood", lambda: not month.kept(quiet) - quiet.listed())
        if not month.kept(noisy) - noisy.listed():
            raise Failed("a flood far above the tenant's rate was stored at once")
    finally:
        month.product.run("tenant", "limits", "south", "--units-per-second", "0")
    month.settle()


def full_database_disk(month):
    """No byte can be written to the database's disk for a while."""
    postgres = month.product.postgres
    with Load(month):
        try:
            postgres.disk.fill()
            time.sleep(20)
        finally:
            postgres.disk.empty()
        if postgres.process.poll() is not None:
            postgres.start()


def full_builder_disks(month):
    """The builders' disks are full. The upload of a build waits, and is built once there is space."""
    tenant, app = month.tenants["south"], month.apps["south"][0]
    disks = {}
    for name in ("builder-1", "builder-2"):
        month.product.stop_service(name)
        disks[name] = Disk(month.folder / f"data-{name}", BUILDER_DISK_MEGABYTES)
        month.product.start([name])
    try:
        for disk in disks.values():
            disk.fill()
        build = reports.Build(app, "1.0.90", str(100 + len(month.builds[app])), month.seed)
        started = tenant.request("POST", "/v1/symbols?name=full", raw=build.dsym())
        time.sleep(25)
        state = tenant.request("GET", f"/v1/symbols/uploads/{started['id']}")
        if state["status"] in ("failed", "done"):
            raise Failed(f"an upload does not wait for space on the builders' disks: {state}")
    finally:
        for disk in disks.values():
            disk.empty()
    releases.wait_built(tenant, started["id"], "the dSYM of the full disk")
    build.released_at = month.day
    month.builds[app].append(build)
    releases.upload(month, tenant, build)
    for name, disk in disks.items():
        month.product.stop_service(name)
        disk.remove()
        month.product.start([name])


def bad_object_storage(month):
    """Object storage is silent, away, slow, and refuses requests, one after another."""
    proxy = month.product.objects.proxy
    with Load(month):
        for mode, seconds in (("silent", 30), ("away", 20), ("slow", 15), ("refuse", 25)):
            proxy.mode = mode
            time.sleep(seconds)
        proxy.mode = "pass"


def brokers_away(month):
    """The machine of one of three brokers is lost, and reports come through. With the second, senders get 503 until both are back."""
    first, second, _ = month.product.kafka.brokers
    with Load(month) as load:
        first.stop(signal.SIGKILL)
        wanted = load.batches + 10
        month.wait_until("reports come through while one of three brokers is away", lambda: load.batches >= wanted)
        second.stop(signal.SIGKILL)
        time.sleep(25)
        month.product.kafka.start()
