"""Keys of tenants: one that may do everything, and a public one of the apps."""

import re

SCOPES = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin"


def renew_keys(month, tenant):
    """Makes both keys of a tenant and revokes those before. After a restore these may be missing, or valid again."""
    made = month.product.run("key", "create", "--tenant", tenant.slug, "--name", "all", "--scope", SCOPES, cell=tenant.cell)
    tenant.key = re.search(r"unslide_\S+", made.stdout)[0]
    # The oldest is first.
    for one in [one for one in tenant.pages("/v1/keys") if one["name"] == "all"][:-1]:
        tenant.request("DELETE", f"/v1/keys/{one['id']}")
    before = [one for one in tenant.pages("/v1/public-keys") if one["name"] == "apps" and one["state"] != "closed"]
    tenant.public_key = tenant.request("POST", "/v1/public-keys", body={"name": "apps", "apps": month.apps[tenant.slug]})["key"]
    for one in before:
        tenant.request("PATCH", f"/v1/public-keys/{one['id']}", body={"state": "closed"})
