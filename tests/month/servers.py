"""The servers of the month: PostgreSQL, Kafka and object storage, each of which can stop and start alone."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from proxy import Proxy

TOP = Path(__file__).resolve().parents[2]
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
CACHE = Path(os.environ.get("UNSLIDE_CACHE", "/var/cache/unslide"))
# Memory for the database's folder, so that it can be full.
DISK_MEGABYTES = 1500


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


class Disk:
    """A small file system in memory at a folder."""

    def __init__(self, path: Path, megabytes: int):
        self.path, self.filler = path, path / "filler"
        own_folder(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755,uid={NOBODY},gid={NOBODY}", "tmpfs", path], check=True)

    def fill(self):
        with open(self.filler, "wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
                    file.flush()
            except OSError:
                pass

    def empty(self):
        self.filler.unlink(missing_ok=True)

    def remove(self):
        subprocess.run(["umount", "--lazy", self.path], check=False)


class Postgres:
    SETTINGS = ["unix_socket_directories=", "max_connections=200", "fsync=off", "max_wal_size=256MB", "jit=off", "huge_pages=off",
                "max_parallel_workers_per_gather=0", "wal_level=replica", "max_wal_senders=2"]

    def __init__(self, folder: Path, binaries: Path, environment: dict[str, str]):
        self.binaries, self.environment, self.log = binaries, environment, folder / "postgres.log"
        self.disk = Disk(folder / "postgres", DISK_MEGABYTES)
        self.data, self.port, self.database = self.disk.path / "data", free_port(), "unslide"
        self.process = None
        own_folder(self.data, 0o700)
        subprocess.run([binaries / "bin/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
                       check=True, capture_output=True, env=environment, cwd="/", **AS_NOBODY)

    def start(self):
        settings = [word for setting in self.SETTINGS for word in ("-c", setting)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.binaries / "bin/postgres", "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port), *settings],
                                            env=self.environment, stdout=log, stderr=log, cwd="/", **AS_NOBODY)
        for _ in range(300):
            if self.ask("SELECT 1", "postgres", check=False).returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise Failed(f"PostgreSQL did not start; its log is {self.log}")

    def stop(self, how=signal.SIGINT):
        """Stops it. SIGINT ends sessions and stops cleanly; SIGQUIT is as sudden as the loss of its machine."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=60)

    def url(self, user: str, database=None) -> str:
        return f"postgres://{user}:any@127.0.0.1:{self.port}/{database or self.database}"

    def ask(self, statement: str, database=None, check=True) -> subprocess.CompletedProcess:
        """Runs a statement as superuser, without the clock of the month."""
        ran = subprocess.run(["psql", self.url("postgres", database), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1",
                              "--command", statement], capture_output=True, text=True, timeout=120)
        if check and ran.returncode != 0:
            raise Failed(f"psql: {ran.stderr}")
        return ran

    def version(self) -> str:
        return self.ask("SHOW server_version", "postgres").stdout.split()[0]

    def tree(self) -> list[int]:
        children = subprocess.run(["pgrep", "--parent", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        return [self.process.pid, *map(int, children)]

    def signal_all(self, which):
        for pid in self.tree():
            os.kill(pid, which)


class Kafka:
    """One broker at the real time: it refuses records from more than an hour ahead, and keeps those of the past."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder, self.log = own_folder(folder / "kafka"), folder / "kafka.log"
        self.environment = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
        self.bootstrap, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.process = None
        (self.folder / "server.properties").write_text(f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}
log.dirs=logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
message.max.bytes=10485760
log.cleaner.dedupe.buffer.size=8388608
# By its clock, records of the month are old.
log.retention.check.interval.ms=86400000
""")
        self.command = ["java", "-Xms48m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{newest_servers()}/kafka/*"]
        own = secrets.token_urlsafe(16)
        subprocess.run([*self.command, "kafka.tools.StorageTool", "format", "--cluster-id", own, "--config", "server.properties"],
                       check=True, capture_output=True, env=self.environment, cwd=self.folder, **AS_NOBODY)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.command, "kafka.Kafka", "server.properties"], env=self.environment, stdout=log, stderr=log,
                                            cwd=self.folder, **AS_NOBODY)
        host, port = self.bootstrap.split(":")
        for _ in range(450):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise Failed(f"Kafka did not start; its log is {self.log}")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)


class ObjectStorage:
    """The embedded S3 endpoint behind a proxy."""

    def __init__(self, folder: Path, program: Path, environment: dict[str, str]):
        self.folder, self.environment, self.log = own_folder(folder / "objects"), environment, folder / "s3.log"
        self.program = folder / "unslide-s3"
        shutil.copy(program, self.program)
        self.process = self.proxy = None
        self.settings: dict[str, str] = {}

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.program, self.folder, "unslide"], env=self.environment, stdout=subprocess.PIPE, stderr=log,
                                            text=True, cwd="/", **AS_NOBODY)
        for _ in range(3):
            name, _, value = self.process.stdout.readline().strip().partition("=")
            self.settings[name] = value
        endpoint = self.settings.get("UNSLIDE_OBJECTS__ENDPOINT")
        if not endpoint:
            raise Failed(f"object storage did not start; its log is {self.log}")
        host, port = endpoint.removeprefix("http://").split(":")
        self.proxy = self.proxy or Proxy((host, int(port)))
        self.settings["UNSLIDE_OBJECTS__ENDPOINT"] = self.proxy.url

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
