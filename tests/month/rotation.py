"""Rotation of every secret, by the steps of docs/operations.md#rotation, while reports come."""

import urllib.error
import urllib.request

from faults import Load
from keys import renew_keys
from operations import replace_services
from security import Authority, Login, end_kafka_users
from servers import Failed

# What `config check` is given of the old secrets, one after another.
PARTS = {
    "PostgreSQL": ["UNSLIDE_POSTGRES__URL"],
    "Kafka": ["UNSLIDE_KAFKA__SECURITY__USERNAME", "UNSLIDE_KAFKA__SECURITY__PASSWORD"],
    "the directory": ["UNSLIDE_CELLS__DIRECTORY"],
    "object storage": ["UNSLIDE_OBJECTS__ACCESS_KEY", "UNSLIDE_OBJECTS__SECRET_KEY"],
}


def rotate_secrets(month):
    """Rotates the logins at each server, the authority of certificates, and the keys of tenants, in all cells. No report is refused meanwhile,
    and no old secret is valid afterwards."""
    product = month.product
    old_authority, old_logins = product.authority, logins(product)
    old_settings = [(cell, product.settings("api", cell)) for cell in product.cells]
    new_authority = Authority(month.folder / "authority-2", product.environment())
    with Load(month):
        new_logins = [Login("-b", login.owner) for login in old_logins]
        for login in new_logins:
            product.postgres.make_login(login)
        for cell, login in zip(product.cells, new_logins):
            product.make_kafka_users(cell, login)
        set_access_keys(product, *old_logins, *new_logins)
        product.trust(old_authority, new_authority)
        for cell, login in zip(product.cells, new_logins):
            cell.login = login
        product.directory_login, product.authority = next(iter(new_logins[len(product.cells):]), None), new_authority
        replace_services(month, product.kinds)
        product.postgres.use_certificate(new_authority)
        product.kafka.use_certificate(new_authority)
        retire(month, old_logins)
        product.trust(new_authority)
        replace_services(month, product.kinds)
    month.repeat_after_restore.append(lambda: end_database_logins(product, old_logins))
    for cell, settings in old_settings:
        for part, names in PARTS.items():
            if old := {name: settings[name] for name in names if name in settings}:
                expect_refused(product, part, cell, old)
        expect_refused(product, "the authority", cell, {"UNSLIDE_KAFKA__SECURITY__CA": str(old_authority.certificate)})
        check = product.run("config", "check", "--connect", "--service", "api", cell=cell)
        print(f"day {month.day}: {check.stdout.splitlines()[-1] if check.stdout else 'no words'}", flush=True)
    rotate_keys(month)


def logins(product) -> list[Login]:
    """Returns the logins of the cells in their order, and that of the directory."""
    return [cell.login for cell in product.cells] + ([product.directory_login] if product.directory_login else [])


def set_access_keys(product, *logins):
    product.objects.stop()
    product.objects.set_keys(*logins)
    product.objects.start()


def retire(month, old):
    """Ends old logins at each server. No service uses them any more."""
    product = month.product
    for login in old:
        month.wait_until(f"no service uses {login.database} at PostgreSQL",
                         lambda: product.sql(f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{login.database}'") == "0")
    end_database_logins(product, old)
    for _, login in zip(product.cells, old):
        end_kafka_users(product.kafka.bootstrap, login)
    set_access_keys(product, *(cell.login for cell in product.cells))


def end_database_logins(product, old):
    for login in old:
        product.sql(f"ALTER ROLE {login.database} NOLOGIN")


def expect_refused(product, part, cell, old):
    check = product.run("config", "check", "--connect", "--service", "api", check=False, cell=cell, **old)
    if check.returncode == 0:
        raise Failed(f"the old secret of {part} is still valid in {cell.name}")


def rotate_keys(month):
    for tenant in month.tenants.values():
        old, old_public = tenant.key, tenant.public_key
        renew_keys(month, tenant)
        authorized = urllib.request.Request(f"{tenant.base}/v1/apps", headers={"authorization": f"Bearer {old}"})
        public = urllib.request.Request(f"{tenant.base}/i/{old_public}", data=b"[]", headers={"content-type": "application/json"}, method="POST")
        for what, request in (("key", authorized), ("public key", public)):
            month.wait_until(f"the old {what} of {tenant.slug} is refused", lambda: status(request) in (401, 403, 404))


def status(request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
