"""People who join, change groups and leave at Keycloak, the identity provider of one tenant."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from servers import AS_NOBODY, NOBODY, TOP, WAIT_SECONDS, Failed, free_port, own_folder

sys.path.insert(0, str(TOP / "tests/sign-in"))
import keycloak  # noqa: E402

SLUG = "north"
TRIAGER, LEAD = "crash-team", "leads"


def cache() -> Path:
    return Path(os.environ.get("UNSLIDE_CACHE", Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "unslide"))


def home() -> Path | None:
    """Returns Keycloak's folder, which scripts/check-keycloak fetches."""
    wanted = [Path(os.environ["KEYCLOAK_HOME"])] if "KEYCLOAK_HOME" in os.environ else sorted(cache().glob("keycloak-[0-9]*"), reverse=True)
    return next((folder for folder in wanted if (folder / "bin/kc.sh").exists()), None)


class Keycloak:
    """It has the clock of the month, as it signs times. Without the program, no person signs in."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder, self.environment, self.log = folder / "keycloak", environment, folder / "keycloak.log"
        self.port, self.management, self.process, self.home = free_port(), free_port(), None, home()

    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, realm: dict):
        """Begins the start, which takes minutes on a busy machine."""
        shutil.copytree(self.home, self.folder, ignore=shutil.ignore_patterns("data"))
        own_folder(self.folder / "data/import")
        (self.folder / "data/import/realm.json").write_text(json.dumps(realm))
        subprocess.run(["chown", "-R", str(NOBODY), self.folder], check=True)
        environment = self.environment | {
            "KC_BOOTSTRAP_ADMIN_USERNAME": "admin", "KC_BOOTSTRAP_ADMIN_PASSWORD": "admin",
            "JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx384m -XX:TieredStopAtLevel=1"}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.folder / "bin/kc.sh", "start-dev", "--http-host=127.0.0.1", f"--http-port={self.port}",
                 f"--http-management-port={self.management}", "--cache=local", "--import-realm"],
                env=environment, stdout=log, stderr=log, cwd=self.folder, process_group=0, **AS_NOBODY)

    def end(self):
        """Ends the script and the program that it starts."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def wait_ready(self):
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url()}/realms/crash/.well-known/openid-configuration", timeout=30):
                    return
            except OSError:
                time.sleep(1)
        raise Failed(f"Keycloak did not start; its log is {self.log}")


def driver(month) -> keycloak.Check:
    return keycloak.Check(month.product.api_url(), SLUG, month.tenants[SLUG].key, month.product.keycloak.url(), None)


def sign_in(month, person, status):
    """Signs a person in with a new browser, and returns it."""
    browser, found, page = driver(month).sign_in(person)
    if found != status:
        raise Failed(f"the sign-in of {person} ended with {found} instead of {status}: {page[-300:]}")
    return browser


def scopes(month, person) -> list[str]:
    found = [one for one in month.tenants[SLUG].pages("/v1/people") if one["name"].lower().startswith(person)]
    if len(found) != 1:
        raise Failed(f"{len(found)} people are listed as {person}")
    return sorted(found[0]["scopes"])


def groups(month, person, leave=(), join=()):
    """Changes the groups of a person at the provider."""
    at, user = driver(month), user_id(month, person)
    ids = {one["name"]: one["id"] for one in at.admin("GET", "/groups")}
    for name in leave:
        at.admin("DELETE", f"/users/{user}/groups/{ids[name]}")
    for name in join:
        at.admin("PUT", f"/users/{user}/groups/{ids[name]}")


def user_id(month, person) -> str:
    return driver(month).admin("GET", f"/users?exact=true&username={person}")[0]["id"]


def begin(month):
    """Starts the provider if people will join."""
    provider = month.product.keycloak
    if provider.home and not provider.process:
        realm = keycloak.build_realm(month.product.api_url(), SLUG)
        # One notice ends all sessions of a person (docs/people.md#by-product).
        for client in realm["clients"]:
            client["attributes"]["backchannel.logout.session.required"] = "false"
        provider.start(realm)


def people_join(month):
    """A tenant sets its provider. A triager and a lead sign in; a person without a group cannot."""
    provider = month.product.keycloak
    if not provider.home:
        print("month: no Keycloak (scripts/check-keycloak fetches it): nobody signs in", flush=True)
        return
    begin(month)
    provider.wait_ready()
    status, state = driver(month).set_client("leaf", scopes=["profile"])
    if status != 200 or "problem" in state:
        raise Failed(f"the provider cannot be set: {state}")
    for person in ("robin", "kim"):
        browser = sign_in(month, person, 200)
        if not driver(month).is_signed_in(browser):
            raise Failed(f"{person} signed in, and sees no page")
    sign_in(month, "none", 403)
    month.lead_scopes = scopes(month, "kim")
    if scopes(month, "robin") == month.lead_scopes:
        raise Failed(f"a triager has the scopes of a lead: {month.lead_scopes}")


def people_change_groups(month):
    """The triager becomes a lead, and the lead is in no group any more: the next sign-in gives what the groups give then."""
    if not month.product.keycloak.process:
        return
    groups(month, "robin", leave=[TRIAGER], join=[LEAD])
    groups(month, "kim", leave=[LEAD])
    sign_in(month, "robin", 200)
    if scopes(month, "robin") != month.lead_scopes:
        raise Failed(f"a person who became a lead has {scopes(month, 'robin')} instead of {month.lead_scopes}")
    sign_in(month, "kim", 403)
    month.left.append(("kim", None))


def people_leave(month):
    """A person with two sessions leaves: a sign-out at the provider ends both, and their key and the account go."""
    if not month.product.keycloak.process:
        return
    at, browsers = driver(month), [sign_in(month, "robin", 200) for _ in range(2)]
    user = user_id(month, "robin")
    at.admin("POST", f"/users/{user}/logout")
    month.wait_until("the sessions of the person who left are over", lambda: not any(at.is_signed_in(one) for one in browsers))
    at.admin("DELETE", f"/users/{user}")
    revoke_person(month, "robin")
    month.repeat_after_restore.append(lambda: revoke_person(month, "robin"))
    month.left += [("robin", browser) for browser in browsers]


def revoke_person(month, person):
    tenant = month.tenants[SLUG]
    for one in tenant.pages("/v1/people"):
        if one["name"].lower().startswith(person):
            tenant.request("DELETE", f"/v1/keys/{one['key_id']}?cascade=true")
