"""What happens on which day. Each event is a function of the month; `SHORT` has those of the short form with their days there."""

import json
import time
import urllib.error
import urllib.request
from datetime import timedelta

from product import Failed
import reports


def release(month, tenant, version, with_dsym=True, bugs=(0,)):
    """Releases a version of each app of a tenant."""
    for app in month.apps[tenant.slug]:
        number = str(100 + len(month.builds[app]))
        build = reports.Build(app, version, number, month.seed)
        build.bugs = bugs
        month.builds[app].append(build)
        if with_dsym:
            upload(month, tenant, build)


def upload(month, tenant, build):
    started = tenant.request("POST", f"/v1/symbols?name={build.app}-{build.version}", raw=build.dsym())
    for _ in range(60):
        state = tenant.request("GET", f"/v1/symbols/uploads/{started['id']}?wait=10s")
        if state["status"] in ("done", "failed"):
            break
    if state["status"] != "done":
        raise Failed(f"the dSYM of {build.app} {build.version} was not built: {json.dumps(state)[:400]}")


def first_releases(month):
    for tenant in month.tenants.values():
        release(month, tenant, "1.0", bugs=(0, 1))


def bad_release(month):
    """A release with three more bugs whose dSYMs are forgotten."""
    release(month, month.tenants["north"], "1.1", with_dsym=False, bugs=(0, 1, 2, 3, 4))


def late_dsyms(month):
    """The forgotten dSYMs come: each report that waited is published again, once."""
    tenant = month.tenants["north"]
    for app in month.apps["north"]:
        upload(month, tenant, month.builds[app][-1])
        # A second time changes nothing.
        upload(month, tenant, month.builds[app][-1])
    wanted = {month.builds[app][-1].debug_id.lower() for app in month.apps["north"]}
    month.wait_until("no report waits for the dSYMs of 1.1", lambda: not any(
        one["debug_id"].lower() in wanted for app in month.apps["north"] for one in tenant.pages(f"/v1/missing-symbols?app={app}")))
    waited = [id for id, one in tenant.reports.items() if one["version"] == "1.1"]
    month.wait_until("each report of 1.1 has a second revision", lambda: all(
        tenant.request("GET", f"/v1/reports/{id}")["symbolication"]["revision"] == 2 for id in waited))


def fixed_release(month):
    release(month, month.tenants["north"], "1.2", bugs=(0,))


def silent_database(month):
    """PostgreSQL stands still for a while. Reports are accepted meanwhile."""
    pid = int((month.folder / "data" / "postgres.pid").read_text().split()[0])
    month.stop_process(pid)
    month.send_reports(0.3, by_kafka=True)
    time.sleep(20)
    month.continue_process(pid)


def killed_workers(month):
    """Each further service is killed at once and starts again, seven times."""
    for _ in range(7):
        for name, kind in month.further.items():
            month.product.kill_service(name)
            month.product.start_service(name, kind)
        month.send_reports(0.1)


def erase_person(month):
    """A person of each tenant is erased: their reports and sessions, everywhere."""
    asked = []
    for tenant in month.tenants.values():
        person = month.people(tenant)[0]
        erasure = tenant.request("POST", "/v1/person-erasures", body={"kind": "user", "id": person})
        asked.append((tenant, person, f"/v1/person-erasures/{erasure['id']}"))
        tenant.erased.add(person)
        tenant.reports = {id: one for id, one in tenant.reports.items() if one["person"] != person}
    for tenant, person, path in asked:
        month.wait_until(f"the erasure of {person} is done", lambda: tenant.request("GET", path)["state"] == "done", seconds=240)


def leaked_key(month):
    """A public key leaks: someone sends with it, it is closed, and what came with it is erased."""
    tenant = month.tenants["south"]
    app = month.apps["south"][0]
    key = tenant.request("POST", "/v1/public-keys", body={"name": "leaked", "apps": [app]})
    month.settle()
    before = set(tenant.reports)
    began = month.clock.now() - timedelta(minutes=5)
    sent = [reports.crash(month.builds[app][-1], month.seed, month.clock.now(), f"stranger-{n}") for n in range(40)]
    request = urllib.request.Request(f"{tenant.base}/i/{key['key']}", data=json.dumps(sent).encode(),
                                     headers={"content-type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    for one in sent:
        tenant.request("GET", f"/v1/reports/{one['report']['id'].lower()}?wait=30s")
    tenant.request("PATCH", f"/v1/public-keys/{key['id']}", body={"state": "closed"})
    tenant.request("POST", f"/v1/public-keys/{key['id']}/erasures", body={
        "from": began.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "to": (month.clock.now() + timedelta(minutes=5)).isoformat(timespec="seconds").replace("+00:00", "Z")})
    month.wait_until("the reports of the leaked key are gone",
                     lambda: {one["id"] for one in tenant.pages(f"/v1/reports?app={app}")} <= before, seconds=240)


def restart(month):
    """Everything stops in order and starts again with its data, as after the maintenance of a machine."""
    month.product.stop()
    month.start_product()


def delete_tenant(month):
    tenant = month.tenants.pop("west")
    month.product.run("tenant", "delete", "west", "--yes")
    month.deleted.append(tenant)
    month.wait_until("nothing of the deleted tenant is left",
                     lambda: '"deleted"' in month.product.run("tenant", "show", "west", check=False).stdout
                     or "does not exist" in month.product.run("tenant", "show", "west", check=False).stderr, seconds=300)


# (event, its day in the whole month, its day in the short form or None)
EVENTS = [
    (first_releases, 0, 0),
    (bad_release, 4, 1),
    (killed_workers, 6, 1),
    (late_dsyms, 8, 2),
    (silent_database, 10, 2),
    (fixed_release, 12, 3),
    (erase_person, 14, 3),
    (leaked_key, 17, 4),
    (restart, 20, 4),
    (delete_tenant, 24, 5),
]
