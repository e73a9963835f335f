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
    "object storage": ["UNSLIDE_OBJECTS__ACCESS_KEY", "UNSLIDE_OBJECTS__SECRET_KEY"],
}


def rotate_secrets(month):
    """Rotates the logins at each server, the authority of certificates, and the keys of tenants. No report is refused meanwhile, and no old
    secret is valid afterwards."""
    product = month.product
    old_login, old_authority, old_settings = product.login, product.authority, product.settings("api")
    new_login, new_authority = Login("-b"), Authority(month.folder / "authority-2", product.environment())
    with Load(month):
        product.postgres.make_login(new_login)
        product.make_kafka_users(new_login)
        set_access_keys(product, old_login, new_login)
        product.trust(old_authority, new_authority)
        product.login, product.authority = new_login, new_authority
        replace_services(month)
        product.postgres.use_certificate(new_authority)
        product.kafka.use_certificate(new_authority)
        retire(month, old_login)
        product.trust(new_authority)
        replace_services(month)
    month.repeat_after_restore.append(lambda: end_database_login(product, old_login))
    for part, names in PARTS.items():
        expect_refused(product, part, {name: old_settings[name] for name in names})
    expect_refused(product, "the authority", {"UNSLIDE_KAFKA__SECURITY__CA": str(old_authority.certificate)})
    check = product.run("config", "check", "--connect", "--service", "api")
    print(f"day {month.day}: {check.stdout.splitlines()[-1] if check.stdout else 'no words'}", flush=True)
    rotate_keys(month)


def set_access_keys(product, *logins):
    product.objects.stop()
    product.objects.set_keys(*logins)
    product.objects.start()


def retire(month, login):
    """Ends an old login at each server. No service uses it any more."""
    product = month.product
    month.wait_until(f"no service uses {login.database} at PostgreSQL",
                     lambda: product.sql(f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{login.database}'") == "0")
    end_database_login(product, login)
    end_kafka_users(product.kafka.bootstrap, login)
    set_access_keys(product, product.login)


def end_database_login(product, login):
    product.sql(f"ALTER ROLE {login.database} NOLOGIN")


def expect_refused(product, part, old):
    check = product.run("config", "check", "--connect", "--service", "api", check=False, **old)
    if check.returncode == 0:
        raise Failed(f"the old secret of {part} is still valid")


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
