"""The product's services in the month: one process each, with the environment that deploy/kubernetes gives them."""

import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from servers import AS_NOBODY, Failed, Kafka, ObjectStorage, Postgres, TOP, free_port, newest_servers, oldest_postgres, own_folder

SERVICES = {"api": "api", "symbolizer-1": "symbolizer", "symbolizer-2": "symbolizer", "indexer-1": "indexer", "indexer-2": "indexer",
            "builder-1": "builder", "builder-2": "builder"}
READY_SECONDS = 90


class Product:
    def __init__(self, folder: Path, program: Path, clock, is_oldest: bool):
        self.folder, self.clock = folder, clock
        self.program = self.install(program, "unslide")
        environment = self.environment()
        binaries = oldest_postgres() if is_oldest else newest_servers() / "postgres"
        self.postgres = Postgres(folder, binaries, environment)
        self.kafka = Kafka(folder, environment)
        self.objects = ObjectStorage(folder, Path(os.environ["UNSLIDE_S3_BIN"]), environment)
        self.config = folder / "unslide.toml"
        shutil.copy(TOP / "deploy/kubernetes/shared/unslide.toml", self.config)
        self.admin_ports = {name: free_port() for name in SERVICES}
        self.api_port = free_port()
        self.services: dict[str, subprocess.Popen] = {}

    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    def install(self, program: Path, name: str) -> Path:
        """Copies a program to where the services' user can run it."""
        copy = self.folder / name
        shutil.copy(program, copy)
        copy.chmod(0o755)
        return copy

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)} | self.clock.environment() | more

    def settings(self, user: str) -> dict[str, str]:
        """Returns what Kubernetes' Secrets have, and what one broker asks for."""
        return self.objects.settings | {
            "UNSLIDE_CONFIG": str(self.config), "UNSLIDE_KAFKA__BOOTSTRAP": self.kafka.bootstrap, "UNSLIDE_OBJECTS__PATH_STYLE": "true",
            "UNSLIDE_KAFKA__REPLICATION_FACTOR": "1", "UNSLIDE_KAFKA__MIN_INSYNC_REPLICAS": "1",
            "UNSLIDE_KAFKA__PARTITIONS__INPUT": "4", "UNSLIDE_KAFKA__PARTITIONS__OUTPUT": "4",
            "UNSLIDE_POSTGRES__URL": self.postgres.url(user)}

    def begin(self):
        """Makes the database, the topics and the services' login, as an operator does before the first start."""
        self.start_servers()
        self.postgres.ask("CREATE DATABASE unslide", "postgres")
        self.run("migrate", "--topics", user="postgres")
        self.postgres.ask("CREATE ROLE unslide LOGIN IN ROLE unslide_service")

    def start_servers(self):
        for server in (self.postgres, self.kafka, self.objects):
            server.start()

    def stop_servers(self):
        for server in (self.kafka, self.objects, self.postgres):
            server.stop()

    def start(self, names=tuple(SERVICES)):
        for name in names:
            self.start_service(name)
        for name in names:
            self.wait_ready(name)

    def start_service(self, name: str):
        kind, data = SERVICES[name], own_folder(self.folder / f"data-{name}")
        environment = self.environment(**self.settings("unslide"), UNSLIDE_ADMIN__LISTEN=f"127.0.0.1:{self.admin_ports[name]}",
                                       UNSLIDE_PROCESS__DATA_DIR=str(data), UNSLIDE_API__LISTEN=f"127.0.0.1:{self.api_port}",
                                       POD_NAME=name, HOSTNAME=name)
        if kind == "symbolizer":
            del environment["UNSLIDE_POSTGRES__URL"]
        with open(self.folder / f"{name}.log", "ab") as log:
            self.services[name] = subprocess.Popen([self.program, kind], env=environment, stdout=log, stderr=log, cwd=self.folder, **AS_NOBODY)

    def wait_ready(self, name: str):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and self.services[name].poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_ports[name]}/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.3)
        raise Failed(f"{name} is not ready after {READY_SECONDS} s; its log is {self.folder}/{name}.log")

    def kill_service(self, name: str):
        process = self.services.pop(name)
        process.kill()
        process.wait()

    def stop_service(self, name: str):
        process = self.services.pop(name)
        process.terminate()
        process.wait(timeout=90)

    def stop(self):
        for process in self.services.values():
            process.terminate()
        for name in list(self.services):
            self.stop_service(name)

    def run(self, *arguments: str, user="unslide", check=True, **more: str) -> subprocess.CompletedProcess:
        """Runs a command of an operator at the clock of the month."""
        ran = subprocess.run([self.program, *arguments], env=self.environment(**self.settings(user), **more), capture_output=True, text=True,
                             cwd=self.folder, timeout=600, **AS_NOBODY)
        if check and ran.returncode != 0:
            raise Failed(f"`unslide {' '.join(arguments)}` ended with {ran.returncode}: {ran.stdout[-800:]}{ran.stderr[-800:]}")
        return ran

    def sql(self, statement: str) -> str:
        return self.postgres.ask(statement).stdout.strip()

    def processes(self) -> dict[str, subprocess.Popen]:
        servers = {"postgres": self.postgres.process, "kafka": self.kafka.process, "s3": self.objects.process}
        return self.services | {name: process for name, process in servers.items() if process}

    def dead(self) -> list[str]:
        """Names the processes that ended by themselves."""
        return [name for name, process in self.processes().items() if process.poll() is not None]

    def memory(self) -> dict[str, int]:
        """Returns the resident kilobytes of each service."""
        def resident(process):
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
            return 0
        return {name: resident(process) for name, process in self.services.items() if process.poll() is None}

    def end(self):
        """Ends everything and gives the memory of disks back."""
        for process in self.processes().values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self.postgres.disk.remove()
