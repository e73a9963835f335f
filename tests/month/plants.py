"""Planted faults: each must break its promise, and the promise must hold again once the fault is taken away."""

import re
import threading
import time
from contextlib import contextmanager

import cells
import people
import privacy
import promises
from events import LASTING
from servers import WAIT_SECONDS


@contextmanager
def lost_record(month):
    """A stored report is lost."""
    tenant = month.tenants["north"]
    id = next(iter(tenant.reports))
    month.product.sql(f"CREATE TABLE planted AS SELECT * FROM reports WHERE report_id = '{id}'; SET session_replication_role = replica; "
                      f"DELETE FROM reports WHERE report_id = '{id}'")
    yield
    month.product.sql("SET session_replication_role = replica; INSERT INTO reports SELECT * FROM planted; DROP TABLE planted")


@contextmanager
def doubled_count(month):
    """A report is counted twice in its version's day."""
    where = "WHERE ctid = (SELECT ctid FROM app_days WHERE reports > 0 AND tenant = 'north' LIMIT 1)"
    row = month.product.sql(f"UPDATE app_days SET reports = reports + 1 {where} RETURNING tenant, app, version, day")
    tenant, app, version, day = row.split("|")
    yield
    month.product.sql(f"UPDATE app_days SET reports = reports - 1 WHERE (tenant, app, version, day) = ('{tenant}', '{app}', '{version}', '{day}')")


@contextmanager
def doubled_on_page(month):
    """The console's page of versions counts a report twice."""
    with doubled_count(month):
        yield


@contextmanager
def growing_process(month):
    """A process is as large as it is, and was much smaller on its second day."""
    memory, month.memory = month.memory, [dict.fromkeys(month.product.memory(), 1)] * 2
    yield
    month.memory = memory


def marker(month):
    tenant = month.tenants["north"]
    if not tenant.erased:
        privacy.erase_person(month)
    return f"marker-{next(iter(tenant.erased))}"


@contextmanager
def marker_in_table(month):
    """A table keeps the marker of a person who was erased."""
    month.product.sql(f"CREATE TABLE planted AS SELECT '{marker(month)}' AS text")
    yield
    month.product.sql("DROP TABLE planted")


@contextmanager
def marker_in_log(month):
    """A log has the marker of a person who was erased."""
    log = month.folder / "planted.log"
    log.write_text(marker(month))
    yield
    log.unlink()


@contextmanager
def marker_in_object(month):
    """An object has the marker of a person who was erased."""
    file = month.product.objects.folder / "s3/unslide/planted"
    file.write_text(marker(month))
    yield
    file.unlink()


@contextmanager
def migration_that_locks(month):
    """A statement holds the lock of a table for half a minute while reports are stored."""
    hold = threading.Thread(target=month.product.sql, args=("BEGIN; LOCK TABLE reports IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(25); COMMIT",))
    hold.start()
    time.sleep(1)
    month.send_one()
    hold.join()
    yield
    month.settle()


@contextmanager
def doubled_outcome(month):
    """A record is published twice. A topic cannot be mended: this comes last."""
    from confluent_kafka import Consumer, Producer

    kafka = {"bootstrap.servers": month.product.kafka.bootstrap}
    consumer = Consumer(kafka | {"group.id": "planted", "auto.offset.reset": "earliest"})
    consumer.subscribe(["crash.symbolicated"])
    record = next(record for record in iter(lambda: consumer.poll(60), None) if not record.error())
    consumer.close()
    producer = Producer(kafka)
    producer.produce(record.topic(), record.value(), key=record.key(), headers=record.headers(), partition=record.partition())
    producer.flush(60)
    yield


@contextmanager
def row_in_old_cell(month):
    """A row of a tenant that moved is left in its old cell. The tenant stays in the new one."""
    cells.add_a_cell(month)
    cells.move_a_tenant(month)
    month.product.sql(f"CREATE TABLE planted AS SELECT '{cells.MOVER}' AS tenant")
    yield
    month.product.sql("DROP TABLE planted")


@contextmanager
def report_beyond_retention(month):
    """A report is kept for a day longer than its tenant wants."""
    month.kept_days["south"], month.patience = -1, 20
    yield
    del month.kept_days["south"]
    month.patience = WAIT_SECONDS


@contextmanager
def person_who_signs_in(month):
    """A person who left still has an account."""
    people.people_join(month)
    month.left.append(("kim", None))
    yield
    month.left.clear()


@contextmanager
def ended_service(month):
    """A service ends by itself."""
    month.product.services["symbolizer-2"].kill()
    month.product.services["symbolizer-2"].wait()
    yield
    month.product.start(["symbolizer-2"])


@contextmanager
def lost_object(month):
    """Object storage loses a file."""
    files = sorted((month.product.objects.folder / "s3/unslide").rglob("*"), key=lambda file: -file.stat().st_size)
    file = next(file for file in files if file.is_file())
    lost = month.product.objects.folder / "lost"
    file.rename(lost)
    yield
    lost.rename(file)


@contextmanager
def long_log(month):
    """A service says the same again and again."""
    with open(month.folder / "api.log", "a") as log:
        log.write('{"level": "WARN", "message": "planted 1"}\n' * (promises.LOG_LINES + 1))
    yield


@contextmanager
def silent_alert(month):
    """The rules lack the alert for a dependency that is away."""
    rules = month.prometheus.rules
    month.prometheus.reload(re.sub(r"      - alert: UnslideDependencyAway\n(?:        .*\n)+", "", rules))
    month.product.objects.proxy.mode = "refuse"
    time.sleep(40)
    month.product.objects.proxy.mode = "pass"
    month.must_fire, month.may_fire = {"UnslideDependencyAway"}, {"UnslideObjectsRefused", "UnslideSymbolsCanNotBeFetched"}
    month.may_last = LASTING
    yield
    month.prometheus.reload(rules)
    month.must_fire, month.may_fire = set(), set()
    time.sleep(20)
    month.prometheus.fired()


@contextmanager
def false_alert(month):
    """An alert fires for nothing that happened."""
    month.prometheus.reload(month.prometheus.rules + "      - alert: Planted\n        expr: vector(1)\n")
    time.sleep(8)
    yield
    month.prometheus.reload(month.prometheus.rules)
    time.sleep(8)
    month.prometheus.fired()


# The promise that each breaks.
PLANTS = {
    lost_record: promises.stored_once, doubled_count: promises.figures_agree,
    doubled_on_page: promises.pages_are_right, growing_process: promises.memory_is_level, marker_in_table: promises.nothing_of_the_erased, marker_in_log: promises.nothing_of_the_erased,
    marker_in_object: promises.nothing_of_the_erased, migration_that_locks: promises.nothing_blocked,
    report_beyond_retention: promises.retention_holds, person_who_signs_in: promises.who_left_is_out,
    ended_service: promises.nothing_ended, lost_object: promises.servers_agree,
    long_log: promises.logs_are_short, silent_alert: promises.alerts_fit, false_alert: promises.alerts_fit,
    row_in_old_cell: cells.nothing_stays_behind, doubled_outcome: promises.audited,
}
STAYS = {doubled_outcome}
# The server that a fault is planted in, if the month can do without it.
NEEDS = {person_who_signs_in: "Keycloak", silent_alert: "Prometheus", false_alert: "Prometheus"}


def names() -> list[str]:
    return [plant.__name__.replace("_", "-") for plant in PLANTS]


def run(month, wanted: str):
    """Plants a fault, or all, into a product of one day. Returns whether each was tried, seen, and gone afterwards."""
    outcomes, untried = [], 0
    there = {"Keycloak": month.product.keycloak.home, "Prometheus": month.prometheus.is_there}
    for name, (plant, promise) in zip(names(), PLANTS.items()):
        if wanted != "all" and name not in wanted.split(","):
            continue
        if plant in NEEDS and not there[NEEDS[plant]]:
            print(f"{name}: NOT TRIED: no {NEEDS[plant]}", flush=True)
            untried += 1
            continue
        with plant(month):
            broken = promises.evaluate(promise, month)
        after = None if plant in STAYS else promises.evaluate(promise, month)
        outcomes.append((name, promise.__doc__.rstrip("."), broken, after))
        print(f"{name}: {f'seen: {broken}' if broken else 'NOT SEEN'}{f'; STAYS: {after}' if after else ''}", flush=True)
    print("\n| planted fault | promise | seen | gone afterwards |\n|---|---|---|---|")
    for name, promise, broken, after in outcomes:
        print(f"| {name} | {promise} | {'yes' if broken else 'NO'} | {'NO' if after else 'yes'} |")
    return bool(outcomes) and not untried and all(broken and not after for _, _, broken, after in outcomes)
