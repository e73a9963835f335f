"""A year of reports of a tenant that was here before the month, so that the month is lived in a database that is full."""

import json
import random
import re
import uuid
from datetime import timedelta

import reports
from servers import DISK_MEGABYTES, WAIT_SECONDS, Failed
from tenants import Tenant

TENANT, APP = "years", "com.example.years"
DAYS, VERSIONS, BUGS, PEOPLE = 365, 12, 5, 5_000
# Days after which what came is stored: topics keep records for seven.
STEP = 4
# Of the database, and of the one that is restored beside it.
MEGABYTES_OF_THOUSAND = 10


class Backlog:
    """Reports of days before the month, the same number each day. Their ids follow from day and number, so that nobody has to keep them."""

    def __init__(self, count: int):
        self.of_day, self.first, self.tenant = count // DAYS, None, None

    def id(self, day, number: int) -> str:
        return str(uuid.uuid5(reports.BUNDLES, f"{day}/{number}"))

    def ids(self, day) -> set[str]:
        return {self.id(day, number) for number in range(self.of_day)}


def live_a_year(month):
    """A gateway writes reports on each day of a year, at the end of which the month begins."""
    from confluent_kafka import Producer

    backlog, product = month.backlog, month.product
    product.postgres.disk.resize(DISK_MEGABYTES + MEGABYTES_OF_THOUSAND * backlog.of_day * DAYS // 1000)
    product.run("tenant", "create", TENANT)
    product.run("tenant", "limits", TENANT, "--retention-days", str(DAYS))
    backlog.tenant = Tenant(TENANT, product.api_url())
    backlog.tenant.key = re.search(r"unslide_\S+", product.run("key", "create", "--tenant", TENANT, "--scope", "reports:read").stdout)[0]
    backlog.first = month.clock.now().date()
    seed = random.Random(1)
    builds = [reports.Build(APP, f"{1 + number}.0", str(number), seed) for number in range(VERSIONS)]
    producer = Producer(product.kafka.client(product.first.login, "gateway", product.authorities) | {"enable.idempotence": True, "compression.type": "lz4"})
    for number in range(DAYS):
        now = month.clock.now()
        for index in range(backlog.of_day):
            report = reports.crash(builds[number * VERSIONS // DAYS], seed, now, f"y{seed.randrange(PEOPLE)}", seed.randrange(BUGS))
            report["report"]["id"] = backlog.id(now.date(), index)
            producer.produce("crash.reports", json.dumps(report).encode(), key=f"{TENANT}/{APP}/{index % 16}", headers={"tenant": TENANT})
        # The broker's time is the report's: all have it before the day ends.
        if producer.flush(WAIT_SECONDS):
            raise Failed("Kafka did not take the reports of a day")
        month.clock.advance(timedelta(days=1))
        if number % STEP == STEP - 1 or number == DAYS - 1:
            month.wait_until("reports of a year are stored", lambda: counted(backlog) == backlog.of_day * (number + 1))
    month.clock.settle()
    product.sql("ANALYZE")


def counted(backlog) -> int:
    """Returns the reports of all groups."""
    return sum(group["reports"] for group in backlog.tenant.pages(f"/v1/groups?app={APP}"))


def backlog_is_kept(month):
    """Of a year of reports before the month the days that are kept are listed whole, and those that are over are not."""
    backlog = month.backlog
    if not backlog.of_day:
        return None
    oldest, last = month.clock.now().date() - timedelta(days=DAYS), backlog.first + timedelta(days=DAYS - 1)
    # An indexer looks every ten minutes, in which the clock moves by some days.
    for day in (oldest - timedelta(days=8), oldest + timedelta(days=2), last):
        expected = backlog.ids(day) if max(oldest, backlog.first) <= day else set()
        begin, end = (f"{one}T00:00:00Z" for one in (day, day + timedelta(days=1)))
        listed = [one["id"] for one in backlog.tenant.pages(f"/v1/reports?app={APP}&from={begin}&to={end}")]
        if sorted(listed) != sorted(expected):
            return (f"{day}: {len(expected - set(listed))} are missing, {len(set(listed) - expected)} should be gone, "
                    f"{len(listed) - len(set(listed))} are doubled")
    return None
