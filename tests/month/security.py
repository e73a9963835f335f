"""Secrets of the installation: the authority of the servers' certificates, and the logins of services."""

import secrets
import subprocess
from pathlib import Path

LOGINS = ["api", "symbolizer", "indexer", "builder", "migrate", "audit", "gateway"]
# From the beginning of the year before the month, by its clock, to after its end.
CERTIFICATE_DAYS = "500"
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """Signs certificates of servers on this machine."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder, self.environment = folder, environment
        folder.mkdir()
        self.certificate = folder / "ca.pem"
        self.run("req", "-x509", *NEW_KEY, "-days", CERTIFICATE_DAYS, "-keyout", "ca.key", "-out", "ca.pem", "-subj", f"/CN={folder.name}")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
        for name in ("postgres", "kafka"):
            self.run("req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            self.run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", CERTIFICATE_DAYS,
                     "-extfile", "names", "-out", f"{name}.pem")

    def run(self, *arguments: str):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.folder, env=self.environment)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


class Login:
    """Logins of one round at every server: each service has its own at Kafka, those with the database share one there."""

    def __init__(self, suffix="", owner="unslide"):
        self.suffix, self.owner, self.database = suffix, owner, f"{owner}{suffix}".replace("-", "_")
        self.password, self.access_key, self.secret_key = (secrets.token_hex(16) for _ in range(3))

    def kafka_user(self, login: str) -> str:
        return f"{self.owner}-{login}{self.suffix}"


def administrator(bootstrap: str):
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap})


def wait_all(futures):
    for future in futures.values():
        future.result(timeout=300)


def set_passwords(client, login: Login, password: str):
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wait_all(client.alter_user_scram_credentials([UserScramCredentialUpsertion(login.kafka_user(name), information, password.encode())
                                                  for name in LOGINS]))


def make_kafka_users(bootstrap: str, login: Login, rights: list[dict]):
    """Makes the users of a login, with the rights that `unslide migrate --acls --json` lists."""
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

    client = administrator(bootstrap)
    set_passwords(client, login, login.password)
    operations = {"".join(word.title() for word in each.name.split("_")): each for each in AclOperation}
    types = {"transactional_id": ResourceType.TRANSACTIONAL_ID, "group": ResourceType.GROUP, "topic": ResourceType.TOPIC}
    wait_all(client.create_acls([
        AclBinding(types[right["resource"]], name, ResourcePatternType[right["pattern"].upper()], right["principal"], "*", operations[operation],
                   AclPermissionType.ALLOW) for right in rights for name in right["names"] for operation in right["operations"]]))


def end_kafka_users(bootstrap: str, login: Login):
    """Gives the users of a login a password that no one has. Kafka 4.3.1 loses all users when it starts and finds one deleted."""
    set_passwords(administrator(bootstrap), login, secrets.token_hex(16))


def change_kafka_certificate(bootstrap: str, keystore: Path, brokers: list[int]):
    """Has the brokers read another certificate while they run."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry("listener.name.sasl_ssl.ssl.keystore.location", str(keystore), incremental_operation=AlterConfigOpType.SET)
    client = administrator(bootstrap)
    for number in brokers:
        wait_all(client.incremental_alter_configs([ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry])]))
