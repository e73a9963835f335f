"""Releases of apps, and uploads of their symbols."""

import json
import os
import sys
import tempfile
from pathlib import Path

import reports
from servers import Failed, TOP

UPLOADERS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "unslide/uploaders"


def release(month, tenant, version, with_symbols=True, bugs=(0,)):
    """Releases a version of each app of a tenant."""
    for app in month.apps[tenant.slug]:
        build = reports.Build(app, version, str(100 + len(month.builds[app])), month.seed)
        build.bugs, build.released_at = bugs, month.day
        month.builds[app].append(build)
        if with_symbols:
            upload(month, tenant, build)


def upload(month, tenant, build):
    """Uploads the dSYM and the source map of a build, and waits until both are ready."""
    build.has_symbols = True
    for name, content in ((f"{build.app}-{build.version}", build.dsym()), (f"{build.app}-{build.version}.map", build.source_map())):
        started = tenant.request("POST", f"/v1/symbols?name={name}", raw=content)
        wait_built(tenant, started["id"], name)


def wait_built(tenant, id, name):
    for _ in range(60):
        state = tenant.request("GET", f"/v1/symbols/uploads/{id}?wait=10s")
        if state["status"] in ("done", "failed"):
            break
    if state["status"] != "done":
        raise Failed(f"{name} was not built: {json.dumps(state)[:400]}")


def first_releases(month):
    for tenant in month.tenants.values():
        release(month, tenant, "1.0", bugs=(0, 1))


def bad_release(month):
    """A release with three more bugs whose symbols are forgotten."""
    release(month, month.tenants["north"], "1.1", with_symbols=False, bugs=(0, 1, 2, 3, 4))


def late_dsyms(month):
    """The forgotten symbols come: each report that waited is published again, a crash once."""
    tenant = month.tenants["north"]
    late = [month.builds[app][-1] for app in month.apps["north"]]
    wanted = {id for build in late for id in (build.debug_id.lower(), build.bundle_id())}

    def missing():
        return {one["debug_id"].lower() for app in month.apps["north"] for one in tenant.pages(f"/v1/missing-symbols?app={app}")} & wanted
    # The dSYM of another build under the name of this one names none of its images.
    build = late[0]
    started = tenant.request("POST", f"/v1/symbols?name={build.app}-{build.version}", raw=month.builds[build.app][0].dsym())
    wait_built(tenant, started["id"], "the dSYM of another build")
    if build.debug_id.lower() not in missing():
        raise Failed("a report no longer waits for its dSYM, though only that of another build came")
    # A second time changes nothing.
    for build in late * 2:
        upload(month, tenant, build)
    month.wait_until("no report waits for the symbols of 1.1", lambda: not missing())
    waited = [(id, one["kind"]) for id, one in tenant.reports.items() if one["version"] == "1.1"]

    def is_right(id, kind):
        # An error of JavaScript may wait for the dSYM and for the source map.
        return tenant.revision(id) in ((2, 3) if kind == "javascript" else (2,))
    month.wait_until("each report of 1.1 has a second revision", lambda: all(is_right(*one) for one in waited))


def fixed_release(month):
    release(month, month.tenants["north"], "1.2", bugs=(0,))


def uploads_of_clients(month):
    """Other products' clients that are installed upload the dSYM of a build each (scripts/uploaders installs them)."""
    sys.path.insert(0, str(TOP / "tests/uploaders"))
    import clients

    tenant, app = month.tenants["south"], month.apps["south"][0]
    token = month.product.run("sentry-token", "--url", tenant.base, UNSLIDE_API_KEY=tenant.key).stdout.strip()
    target = clients.Target(tenant.base, tenant.slug, app, tenant.key, token)
    with tempfile.TemporaryDirectory() as lab:
        for number, (name, run, *_) in enumerate(clients.Clients(UPLOADERS, f"{lab}/home").list()):
            build = reports.Build(app, f"1.0.{number + 1}", str(100 + len(month.builds[app])), month.seed)
            build.bugs, build.released_at = (0,), month.day
            dwarf = Path(lab) / str(number) / "Cafe.dSYM/Contents/Resources/DWARF/Cafe"
            dwarf.parent.mkdir(parents=True)
            dwarf.write_bytes(build.dsym())
            result = run(target, str(Path(lab) / str(number)))
            if result.reports_failure():
                raise Failed(f"{name}: {result.status} {result.text[-400:]}")
            month.builds[app].append(build)
            build.has_symbols = True
            month.wait_until(f"the dSYM of {name} is ready", lambda: tenant.request(
                "POST", "/v1/symbols/check", body={"debug_ids": [build.debug_id.lower()]})["ready"])
            upload_map = tenant.request("POST", f"/v1/symbols?name={build.version}.map", raw=build.source_map())
            wait_built(tenant, upload_map["id"], name)
            print(f"day {month.day}: uploaded with {name}", flush=True)
