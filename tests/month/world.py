"""Tenants, what they were sent, and the product that holds it."""

import random
import time
from datetime import timedelta
from pathlib import Path

import senders
from keys import renew_keys
from product import Product
from servers import WAIT_SECONDS, Failed
from tenants import Tenant

PEOPLE = 25


class World:
    # Share of the reports of a batch.
    share = 0.5

    def __init__(self, folder: Path, apps: dict[str, list[str]], seed: int, clock, program: Path, is_oldest: bool, brokers: int):
        self.folder, self.apps, self.day, self.clock = folder, apps, 0, clock
        self.seed = random.Random(seed)
        self.product = Product(folder, program, clock, is_oldest, brokers)
        self.builds = {app: [] for names in apps.values() for app in names}
        self.tenants, self.deleted, self.moved, self.repeat_after_restore, self.left = {}, [], [], [], []
        # Reports of all time.
        self.sent = 0
        # Days that reports are kept, of tenants with a limit.
        self.kept_days = {}
        self.patience = WAIT_SECONDS

    def begin(self):
        """Starts everything, and makes the tenants with a key each for everything and for apps."""
        self.product.begin()
        for slug, apps in self.apps.items():
            self.product.run("tenant", "create", slug)
            tenant = self.tenants[slug] = Tenant(slug, self.product.api_url())
            renew_keys(self, tenant)
            tenant.other_public_key = tenant.request("POST", "/v1/public-keys", body={"name": "other", "apps": apps})

    def people(self, tenant):
        return [person for person in (f"{tenant.slug}-p{n}" for n in range(PEOPLE)) if person not in tenant.erased]

    def send_one(self):
        """Sends some reports of one build."""
        tenant, (app, *_) = next((self.tenants[slug], apps) for slug, apps in self.apps.items())
        senders.send_lines(self, tenant, self.builds[app][-1])

    def wait_until(self, what, condition):
        """Waits for a promise. Its condition returns something true once it holds."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(1)
        raise Failed(f"after {self.patience} s it does not hold that {what}")

    def settle(self):
        """Waits until each report and session that was sent is stored."""
        for tenant in self.tenants.values():
            self.wait_until(f"all reports of {tenant.slug} are stored", lambda: not self.kept(tenant) - tenant.listed())
            for app, sent in tenant.sessions.items():
                self.wait_until(f"all sessions of {app} are counted", lambda: tenant.counted_sessions(app) >= sent)

    def kept(self, tenant) -> set[str]:
        """Returns the reports of a tenant that are within its retention."""
        if tenant.slug not in self.kept_days:
            return set(tenant.reports)
        first = self.clock.now().date() - timedelta(days=self.kept_days[tenant.slug])
        return {id for id, one in tenant.reports.items() if one["on"] >= first}
