"""What a day costs: bytes that PostgreSQL writes and keeps for a report, and how long an app waits beside noisy neighbours. Printed, not judged."""

import math

# The tenant that no event makes noisy.
NEIGHBOUR = "north"
USES = {"cpu_micros": "CPU time", "kafka_bytes": "bytes of Kafka", "object_requests": "requests to object storage", "object_bytes": "their bytes"}


class Costs:
    def __init__(self, month):
        self.month, self.days, self.log, self.sent, self.shares = month, [], 0, 0, []

    def begin(self):
        """Leaves out what the installation wrote."""
        self.log, _ = self.bytes()

    def bytes(self) -> list[int]:
        """Returns the bytes that the databases wrote and have."""
        databases = ", ".join(f"'{cell.database}'" for cell in self.month.product.cells)
        figures = f"pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') || ' ' || (SELECT sum(pg_database_size(name)) FROM unnest(ARRAY[{databases}]) name)"
        return [int(text) for text in self.month.product.sql(f"SELECT {figures}").split()]

    def note(self):
        """Notes a day at its end."""
        log, database = self.bytes()
        tenants = self.month.tenants.values()
        kept, seconds = sum(len(tenant.reports) for tenant in tenants), sorted(self.month.tenants[NEIGHBOUR].seconds)
        for tenant in tenants:
            tenant.seconds.clear()
        # A restored database may begin its log again.
        new, written = self.month.sent - self.sent, max(log - self.log, 0)
        self.days.append((self.month.day, new, written, kept, database, percentile(seconds, 0.5), percentile(seconds, 0.99)))
        self.log, self.sent = log, self.month.sent
        self.shares = self.shares_without_tenant()

    def shares_without_tenant(self) -> list[str]:
        """Returns the share of each use that no tenant caused. A program of before costs were counted has none."""
        if not self.month.product.sql("SELECT to_regclass('shared_resource_uses')"):
            return []
        columns = ", ".join(f"(SELECT sum({use}) FROM shared_resource_uses), (SELECT sum({use}) FROM resource_uses)" for use in USES)
        amounts = [float(text or 0) for text in self.month.product.sql(f"SELECT {columns}").split("|")]
        return [f"{100 * shared / max(shared + of_tenants, 1):.1f} % of {name}" for name, shared, of_tenants
                in zip(USES.values(), amounts[::2], amounts[1::2])]

    def print_table(self):
        print("\n| day | new reports | kB of WAL for each | reports | kB of the database for each | "
              "ms that a quiet tenant's app waits, p50 | p99 |\n|---|---|---|---|---|---|---|")
        for day, new, written, kept, database, middle, slowest in self.days:
            print(f"| {day} | {new} | {written / 1000 / max(new, 1):.0f} | {kept} | {database / 1000 / max(kept, 1):.0f} | {middle * 1000:.0f} | "
                  f"{slowest * 1000:.0f} |")
        if self.shares:
            print(f"\nNo tenant caused {', '.join(self.shares)}.")


def percentile(ordered, share):
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0
