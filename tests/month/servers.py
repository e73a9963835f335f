"""The servers of the month: PostgreSQL, Kafka's brokers and object storage, each of which can stop and start alone."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import security
from proxy import Proxy

TOP = Path(__file__).resolve().parents[2]
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
CACHE = Path(os.environ.get("UNSLIDE_CACHE", "/var/cache/unslide"))
# Memory for the database's folder, so that it can be full.
DISK_MEGABYTES = 1500
# Longer than anything takes on a busy machine: what has not come by then never does.
WAIT_SECONDS = 900


class Failed(Exception):
    """A promise of the product is broken, or a step of the month cannot go on."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def own_folder(path: Path, mode=0o755) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(mode)
    return path


def newest_servers() -> Path:
    """Returns the folder of the pinned servers that `unslide dev` has fetched."""
    pinned = (TOP / "tools/embedded/pom.xml").read_text()
    for folder in CACHE.glob("servers-*"):
        if (folder / "pom.xml").is_file() and (folder / "pom.xml").read_text() == pinned:
            return folder
    raise Failed(f"no servers in {CACHE}: `make servers` fetches them")


def oldest_postgres() -> Path:
    """Returns the folder of the oldest PostgreSQL, which `scripts/check-postgres --oldest` fetches."""
    version = re.search(r"^versions=\((\S+)", (TOP / "scripts/check-postgres").read_text(), re.M)[1]
    folder = CACHE / f"postgres-{version}"
    if not folder.is_dir():
        raise Failed(f"no {folder}: `scripts/check-postgres --oldest` fetches it")
    return folder


def write_private(path: Path, text: str):
    path.write_text(text)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o600)


class Disk:
    """A small file system in memory at a folder."""

    def __init__(self, path: Path, megabytes: int):
        self.path, self.filler = path, path / "filler"
        own_folder(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755,uid={NOBODY},gid={NOBODY}", "tmpfs", path], check=True)

    def resize(self, megabytes: int):
        subprocess.run(["mount", "-o", f"remount,size={megabytes}m", self.path], check=True)

    def fill(self):
        # What a buffer still has would fail again when the file is closed.
        with open(self.filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass

    def empty(self):
        self.filler.unlink(missing_ok=True)

    def remove(self):
        subprocess.run(["umount", "--lazy", self.path], check=False)


class Postgres:
    SETTINGS = ["unix_socket_directories=", "max_connections=200", "max_locks_per_transaction=256", "fsync=off", "max_wal_size=256MB", "jit=off", "huge_pages=off",
                "max_parallel_workers_per_gather=0", "wal_level=replica", "max_wal_senders=2", "ssl=on"]
    # The superuser is the driver; services need a password and TLS.
    ACCESS = "host all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"

    def __init__(self, folder: Path, binaries: Path, environment: dict[str, str], authority: security.Authority):
        self.binaries, self.environment, self.log = binaries, environment, folder / "postgres.log"
        self.disk = Disk(folder / "postgres", DISK_MEGABYTES)
        self.data, self.port = self.disk.path / "data", free_port()
        self.process = None
        self.certificates = own_folder(folder / "postgres-certificates")
        self.use_certificate(authority)
        own_folder(self.data, 0o700)
        subprocess.run([binaries / "bin/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
                       check=True, capture_output=True, env=environment, cwd="/", **AS_NOBODY)
        (self.data / "pg_hba.conf").write_text(self.ACCESS)

    def use_certificate(self, authority: security.Authority):
        """Uses a certificate of an authority for new connections."""
        for name in ("postgres.pem", "postgres.key"):
            write_private(self.certificates / name, authority.text(name))
        if self.process:
            self.process.send_signal(signal.SIGHUP)

    def start(self):
        files = [f"ssl_cert_file={self.certificates}/postgres.pem", f"ssl_key_file={self.certificates}/postgres.key"]
        settings = [word for setting in [*self.SETTINGS, *files] for word in ("-c", setting)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.binaries / "bin/postgres", "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port), *settings],
                                            env=self.environment, stdout=log, stderr=log, cwd="/", **AS_NOBODY)
        for _ in range(WAIT_SECONDS * 5):
            if self.ask("SELECT 1", check=False).returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise Failed(f"PostgreSQL did not start; its log is {self.log}")

    def stop(self, how=signal.SIGINT):
        """Stops it. SIGINT ends sessions and stops cleanly; SIGQUIT is as sudden as the loss of its machine."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=WAIT_SECONDS)

    def url(self, user: str, database="postgres", password="any", query="") -> str:
        return f"postgres://{user}:{password}@127.0.0.1:{self.port}/{database}{query}"

    def make_login(self, login: security.Login):
        """Makes the services' login, as after a restore on a new server."""
        self.ask(f"DROP ROLE IF EXISTS {login.database}; CREATE ROLE {login.database} LOGIN PASSWORD '{login.password}' IN ROLE unslide_service")

    def ask(self, statement: str, database="postgres", check=True) -> subprocess.CompletedProcess:
        """Runs a statement as superuser, without the clock of the month."""
        # A statement about each of thousands of tables is too long for an argument.
        ran = subprocess.run(["psql", self.url("postgres", database), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"],
                             input=statement, capture_output=True, text=True, timeout=WAIT_SECONDS)
        if check and ran.returncode != 0:
            raise Failed(f"psql: {ran.stderr}")
        return ran

    def version(self) -> str:
        return self.ask("SHOW server_version").stdout.split()[0]

    def tree(self) -> list[int]:
        children = subprocess.run(["pgrep", "--parent", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        return [self.process.pid, *map(int, children)]

    def signal_all(self, which):
        for pid in self.tree():
            # A session may end in between.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)


class Broker:
    """A broker of Kafka that is also one of its controllers."""

    def __init__(self, number: int, folder: Path, environment: dict[str, str]):
        self.number, self.folder, self.log, self.environment = number, own_folder(folder), folder.with_suffix(".log"), environment
        self.plain, self.secured, self.controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.command = ["java", "-Xms48m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{newest_servers()}/kafka/*"]
        self.process = None

    def format(self, cluster: str, brokers: list["Broker"], keystore: Path):
        count = len(brokers)
        voters = ",".join(f"{one.number}@{one.controller}" for one in brokers)
        (self.folder / "server.properties").write_text(f"""\
process.roles=broker,controller
node.id={self.number}
controller.quorum.voters={voters}
controller.quorum.fetch.timeout.ms=10000
controller.quorum.election.timeout.ms=5000
controller.quorum.request.timeout.ms=10000
broker.session.timeout.ms=15000
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{self.plain},SASL_SSL://{self.secured},CONTROLLER://{self.controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.ssl.keystore.type=PEM
listener.name.sasl_ssl.ssl.keystore.location={keystore}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs=logs
auto.create.topics.enable=false
offsets.topic.replication.factor={count}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={count}
transaction.state.log.min.isr={enough(count)}
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor={count}
share.coordinator.state.topic.min.isr={enough(count)}
group.initial.rebalance.delay.ms=0
message.max.bytes=10485760
log.cleaner.dedupe.buffer.size=8388608
log.retention.check.interval.ms=86400000
""")
        subprocess.run([*self.command, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", "server.properties"],
                       check=True, capture_output=True, env=self.environment, cwd=self.folder, **AS_NOBODY)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.command, "kafka.Kafka", "server.properties"], env=self.environment, stdout=log, stderr=log,
                                            cwd=self.folder, **AS_NOBODY)

    def wait_ready(self):
        host, port = self.plain.split(":")
        for _ in range(WAIT_SECONDS * 5):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise Failed(f"Kafka's broker {self.number} did not start; its log is {self.log}")

    def stop(self, how=signal.SIGTERM):
        """Stops it. SIGKILL is as sudden as the loss of its machine."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=WAIT_SECONDS)


def enough(replicas: int) -> int:
    """Returns how many replicas must have a record."""
    return max(1, replicas - 1)


class Kafka:
    """Brokers with a replica of everything each. Who comes without TLS is their administrator. Services need a login, and have no right that
    was not given to them."""

    def __init__(self, folder: Path, environment: dict[str, str], authority: security.Authority, count: int):
        self.folder = folder / "kafka-1"
        self.brokers = [Broker(number, folder / f"kafka-{number}", environment) for number in range(1, count + 1)]
        self.bootstrap, self.secured = (",".join(getattr(one, name) for one in self.brokers) for name in ("plain", "secured"))
        cluster = secrets.token_urlsafe(16)
        for broker in self.brokers:
            broker.format(cluster, self.brokers, self.write_keystore(authority))

    def write_keystore(self, authority: security.Authority) -> Path:
        keystore = self.folder / f"{authority.folder.name}.pem"
        write_private(keystore, authority.text("kafka.key") + authority.text("kafka.pem"))
        return keystore

    def use_certificate(self, authority: security.Authority):
        security.change_kafka_certificate(self.bootstrap, self.write_keystore(authority), [broker.number for broker in self.brokers])

    def client(self, login: security.Login, name: str, authorities: Path) -> dict[str, str]:
        """Returns the settings of a client with a login."""
        return {"bootstrap.servers": self.secured, "security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": login.kafka_user(name), "sasl.password": login.password, "ssl.ca.location": str(authorities)}

    def start(self):
        """Starts the brokers that do not run."""
        stopped = [broker for broker in self.brokers if not broker.process or broker.process.poll() is not None]
        for broker in stopped:
            broker.start()
        for broker in stopped:
            broker.wait_ready()

    def stop(self):
        """Stops all at once: one that is alone waits for the others to take over what it has."""
        for broker in self.brokers:
            if broker.process and broker.process.poll() is None:
                broker.process.terminate()
        for broker in self.brokers:
            broker.stop()


class ObjectStorage:
    """The embedded S3 endpoint behind a proxy."""

    def __init__(self, folder: Path, program: Path, environment: dict[str, str]):
        self.folder, self.environment, self.log = own_folder(folder / "objects"), environment, folder / "s3.log"
        self.program = folder / "unslide-s3"
        shutil.copy(program, self.program)
        self.process = self.proxy = None
        self.endpoint = ""

    def bucket(self, name: str) -> Path:
        return self.folder / "s3" / name

    def set_keys(self, *logins: security.Login):
        """Sets the access keys that are valid from the next start."""
        write_private(self.folder / "s3-credentials", "".join(f"{login.access_key} {login.secret_key}\n" for login in logins))

    def settings(self, login: security.Login) -> dict[str, str]:
        return {"UNSLIDE_OBJECTS__ENDPOINT": self.endpoint, "UNSLIDE_OBJECTS__ACCESS_KEY": login.access_key,
                "UNSLIDE_OBJECTS__SECRET_KEY": login.secret_key}

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.program, self.folder, "unslide"], env=self.environment, stdout=subprocess.PIPE, stderr=log,
                                            text=True, cwd="/", **AS_NOBODY)
        endpoint = self.process.stdout.readline().strip().partition("=")[2]
        if not endpoint:
            raise Failed(f"object storage did not start; its log is {self.log}")
        host, port = endpoint.removeprefix("http://").split(":")
        self.proxy = self.proxy or Proxy((host, int(port)))
        self.endpoint = self.proxy.url

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
