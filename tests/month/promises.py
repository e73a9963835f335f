"""What has to hold each day. A promise returns None, or says how it is broken."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter

import people
from backlog import backlog_is_kept
from cells import nothing_stays_behind
from events import LASTING, LATE
from servers import TOP, WAIT_SECONDS, Failed
from world import PEOPLE

# The servers are away for a minute at most on a day.
LOG_LINES = 100
# Of the machine for each core: with more to do every service is late, and says so.
BUSY_LOAD = 5
# Resident memory beside that of the second day: more is a leak.
MEMORY_FACTOR, MEMORY_KILOBYTES = 1.5, 50_000
CONSOLE_TOOLS = people.cache() / "tools/console"


def retention_holds(month):
    """No report is listed that is older than its tenant keeps."""
    tenants = [tenant for tenant in month.tenants.values() if month.kept(tenant) < set(tenant.reports)]
    if tenants:
        # An indexer looks when it starts, and then every ten minutes.
        month.product.stop_service("indexer-1")
        month.product.start(["indexer-1"])
    for tenant in tenants:
        month.wait_until(f"the days of {tenant.slug} that are over are gone", lambda: not (set(tenant.reports) - month.kept(tenant)) & tenant.listed())


def stored_once(month):
    """Each report that was sent is listed once, and no other is."""
    for tenant in month.tenants.values():
        listed = [one["id"] for one in tenant.pages("/v1/reports")]
        kept = month.kept(tenant)
        if sorted(listed) != sorted(kept):
            lost, more = kept - set(listed), set(listed) - kept
            kinds = sorted({tenant.reports[id]["kind"] for id in lost})
            return (f"{tenant.slug}: {len(lost)} are missing {kinds}, {len(more)} are not known, "
                    f"{len(listed) - len(set(listed))} are doubled")
    return None


def figures_agree(month):
    """The counts of versions, groups and sessions equal what was sent, also as CSV."""
    for tenant in month.tenants.values():
        for app in month.apps[tenant.slug]:
            expected = sent_by_version(tenant, app)
            lists = {"list": tenant.pages(f"/v1/apps/{app}/versions"), "CSV": tenant.rows(f"/v1/apps/{app}/versions")}
            for form, rows in lists.items():
                versions = {one["version"]: int(one["reports"]) for one in rows if int(one["reports"])}
                if versions != expected:
                    return f"{app}: the {form} says {versions}, sent were {expected}"
            groups = {"groups count": tenant.pages(f"/v1/groups?app={app}"), "groups as CSV count": tenant.rows(f"/v1/groups?app={app}")}
            for what, rows in groups.items():
                counted = sum(int(one["reports"]) for one in rows)
                if counted != expected.total():
                    return f"{app}: its {what} {counted} reports, sent were {expected.total()}"
            sessions, sent = tenant.counted_sessions(app), tenant.sessions.get(app, [0, 0])
            if sessions != sent:
                return f"{app}: {sessions} sessions and crashed ones are counted, sent were {sent}"
    return None


def sent_by_version(tenant, app) -> Counter:
    return Counter(one["version"] for one in tenant.reports.values() if one["app"] == app)


def pages_are_right(month):
    """The console's pages say what was sent, without an error or a fault of accessibility."""
    if not (CONSOLE_TOOLS / "node_modules").is_dir() or not shutil.which(os.environ.get("UNSLIDE_CHROMIUM", "chromium")):
        return None
    # A session that begins by the clock of yesterday would be over.
    month.clock.settle()
    # Those of another tenant each day: a browser takes seconds for each.
    tenants = list(month.tenants.values())
    tenant = tenants[month.day % len(tenants)]
    ran = subprocess.run(["node", TOP / "tests/month/console.mjs", CONSOLE_TOOLS, tenant.base, tenant.key, *month.apps[tenant.slug]],
                         capture_output=True, text=True, timeout=WAIT_SECONDS)
    if ran.returncode != 0:
        return f"the visit ended with {ran.returncode}: {ran.stderr[-400:]}"
    found = json.loads(ran.stdout)
    wrong = found["wrong"]
    for app, reports in found["reports"].items():
        if reports != (expected := sent_by_version(tenant, app)):
            wrong.append(f"{app}: the page says {reports}, sent were {dict(expected)}")
    return "; ".join(wrong[:5]) or None


def memory_is_level(month):
    """No process has grown by half since its second day."""
    grown = [f"{name}: {kilobytes} kB, was {before}" for name, kilobytes in month.product.memory().items()
             if (before := memory_before(month, name)) and kilobytes > before * MEMORY_FACTOR + MEMORY_KILOBYTES]
    return "; ".join(grown) or None


def memory_before(month, name) -> int:
    """Returns the kilobytes of a process on its second day, or 0 before."""
    days = [day[name] for day in month.memory if name in day]
    return days[1] if len(days) > 1 else 0


def audited(month):
    """`unslide audit` finds one outcome for each record."""
    ran = month.product.run_for_all("audit")
    return None if ran.returncode == 0 else f"exit code {ran.returncode}: {ran.stdout[-600:]}{ran.stderr[-300:]}"


def nothing_of_the_erased(month):
    """No table, log or file has the marker of a person who was erased, or of a deleted tenant's people."""
    markers = [person for tenant in [*month.tenants.values(), *month.deleted] for person in tenant.erased]
    markers += [f"{tenant.slug}-p{n}" for tenant in month.deleted for n in range(PEOPLE)]
    if not markers:
        return None
    pattern = "|".join(rf"(marker-)?{re.escape(marker)}" for marker in markers)
    places = [place for cell in month.product.cells for place in month.product.search_tables(pattern, cell)]
    places += [(log.name, log.read_text(errors="replace")) for log in month.folder.glob("*.log")]
    for place, text in places:
        found = re.search(rf"({pattern})(?![0-9])", text)
        if found:
            return f"{place} has {text[max(0, found.start() - 80):found.end() + 40]!r}"
    objects = subprocess.run(["grep", "--recursive", "--text", "--files-with-matches", "--extended-regexp", rf"({pattern})([^0-9]|$)",
                              month.product.objects.folder], capture_output=True, text=True)
    return f"object storage has {objects.stdout.splitlines()[0]}" if objects.stdout else None


def who_left_is_out(month):
    """Nobody who left signs in, or has a session."""
    for person, browser in month.left:
        at = people.driver(month)
        if browser and at.is_signed_in(browser):
            return f"{person} has a session"
        if at.sign_in(person)[1] == 200:
            return f"{person} signs in"
    return None


def nothing_ended(month):
    """No process ended by itself."""
    dead = month.product.dead()
    return f"ended: {', '.join(dead)}" if dead else None


def servers_agree(month):
    """`unslide fsck` finds no disagreement."""
    ran = month.product.run_for_all("fsck")
    return None if ran.returncode == 0 else f"exit code {ran.returncode}: {ran.stdout[-600:]}{ran.stderr[-300:]}"


def nothing_blocked(month):
    """No statement waits ten seconds for a lock."""
    blocked = month.locks.take()
    return f"waited: {blocked[:3]}" if blocked else None


def logs_are_short(month):
    """No service says the same more than a hundred times a day, whatever fails."""
    long = [f"{name} {count} times: {message}" for (name, _, message), count in month.logs.take().items() if count > LOG_LINES]
    return "; ".join(long) or None


def alerts_fit(month):
    """The alerts of the events fired, and no others."""
    if not month.prometheus.process:
        return None
    fired = month.prometheus.fired()
    silent = month.must_fire - fired
    may_fire = month.may_fire | (LATE if os.getloadavg()[2] > BUSY_LOAD * os.cpu_count() else set())
    # What fired yesterday may take its time to end, and what has long windows goes on.
    wrong = fired - month.must_fire - may_fire - month.may_last
    month.may_last = month.must_fire | may_fire | (month.may_last & LASTING)
    parts = [f"did not fire: {sorted(silent)}" if silent else "", f"fired: {sorted(wrong)}" if wrong else ""]
    return "; ".join(filter(None, parts)) or None


def evaluate(promise, month):
    """Returns how a promise is broken, or None. One that cannot be looked at is broken."""
    try:
        return promise(month)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        return str(error)


PROMISES = {function.__doc__.rstrip("."): function for function in
            [retention_holds, backlog_is_kept, stored_once, figures_agree, audited, nothing_of_the_erased, nothing_stays_behind, who_left_is_out, nothing_ended, servers_agree,
             nothing_blocked, logs_are_short, memory_is_level, alerts_fit, pages_are_right]}
