"""Tenants, what they were sent, and the product that holds it."""

import random
import re
import time
from pathlib import Path

import senders
from product import Product
from servers import Failed
from tenants import Tenant

PEOPLE = 25
SCOPES = "symbols:write,symbols:read,reports:write,reports:read,tenant:admin"


class World:
    # Share of the reports of a batch.
    share = 0.5

    def __init__(self, folder: Path, apps: dict[str, list[str]], seed: int, clock, program: Path, is_oldest: bool):
        self.folder, self.apps, self.day, self.clock = folder, apps, 0, clock
        self.seed = random.Random(seed)
        self.product = Product(folder, program, clock, is_oldest)
        self.builds = {app: [] for names in apps.values() for app in names}
        self.tenants, self.deleted, self.repeat_after_restore = {}, [], []

    def begin(self):
        """Starts everything, and makes the tenants with a key each for everything and for apps."""
        self.product.begin()
        self.product.start()
        for slug, apps in self.apps.items():
            self.product.run("tenant", "create", slug)
            made = self.product.run("key", "create", "--tenant", slug, "--name", "all", "--scope", SCOPES)
            tenant = self.tenants[slug] = Tenant(slug, self.product.api_url(), re.search(r"unslide_\S+", made.stdout)[0])
            tenant.public_key = tenant.request("POST", "/v1/public-keys", body={"name": "apps", "apps": apps})["key"]
            tenant.other_public_key = tenant.request("POST", "/v1/public-keys", body={"name": "other", "apps": apps})

    def people(self, tenant):
        return [person for person in (f"{tenant.slug}-p{n}" for n in range(PEOPLE)) if person not in tenant.erased]

    def send_one(self):
        """Sends some reports of one build."""
        tenant, (app, *_) = next((self.tenants[slug], apps) for slug, apps in self.apps.items())
        senders.send_lines(self, tenant, self.builds[app][-1])

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
