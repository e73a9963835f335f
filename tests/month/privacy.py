"""Erasures: of a person, of what came with a leaked key, of a tenant."""

import json
from datetime import timedelta

import reports


def to_text(moment):
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def erase_person(month):
    """A person of each tenant is erased: their reports and sessions, everywhere."""
    persons = [(tenant, month.people(tenant)[0]) for tenant in month.tenants.values()]
    erase(month, persons)
    for tenant, person in persons:
        tenant.erased.add(person)
        tenant.reports = {id: one for id, one in tenant.reports.items() if one["person"] != person}
    month.repeat_after_restore.append(lambda: erase(month, persons))


def erase(month, persons):
    asked = [(tenant, person, tenant.request("POST", "/v1/person-erasures", body={"kind": "user", "id": person})["id"]) for tenant, person in persons]
    for tenant, person, id in asked:
        month.wait_until(f"the erasure of {person} is done",
                         lambda: tenant.request("GET", f"/v1/person-erasures/{id}")["state"] == "done")


def leaked_key(month):
    """A public key leaks: someone sends with it, it is closed, and what came with it is erased."""
    tenant, app = month.tenants["south"], month.apps["south"][0]
    key = tenant.other_public_key
    month.settle()
    began = month.clock.now() - timedelta(minutes=5)
    sent = [reports.crash(month.builds[app][-1], month.seed, month.clock.now(), f"stranger-{n}") for n in range(40)]
    tenant.send_as_app(json.dumps(sent).encode(), key=key["key"])
    for one in sent:
        tenant.request("GET", f"/v1/reports/{one['report']['id'].lower()}?wait=30s")
    undo(month, tenant, key["id"], began)
    month.repeat_after_restore.append(lambda: undo(month, tenant, key["id"], began))


def undo(month, tenant, id, began):
    """Closes a key and erases what came with it since."""
    tenant.request("PATCH", f"/v1/public-keys/{id}", body={"state": "closed"})
    tenant.request("POST", f"/v1/public-keys/{id}/erasures", body={"from": to_text(began)})
    month.wait_until("the reports of the leaked key are gone",
                     lambda: tenant.listed() <= set(tenant.reports))


def delete_tenant(month):
    tenant = month.tenants.pop("west")
    month.product.run("tenant", "delete", "west", "--yes")
    month.deleted.append(tenant)

    def is_gone():
        shown = month.product.run("tenant", "show", "west", check=False)
        return '"deleted"' in shown.stdout or "does not exist" in shown.stderr
    month.wait_until("nothing of the deleted tenant is left", is_gone)


def limit_retention(month):
    """A tenant keeps its reports for some days only. Restores and erasures come before the first day ends: counts of a report that is gone
    stay, whoever is erased later."""
    month.kept_days["south"] = 20 if month.is_whole else 4
    month.product.run("tenant", "limits", "south", "--retention-days", str(month.kept_days["south"]))
