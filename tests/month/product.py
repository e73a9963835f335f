"""The product's services in the month: one process each, with the environment that deploy/kubernetes gives them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import security
from people import Keycloak
from servers import AS_NOBODY, WAIT_SECONDS, Failed, Kafka, ObjectStorage, Postgres, TOP, enough, free_port, newest_servers, oldest_postgres, own_folder

SERVICES = {"api": "api", "symbolizer-1": "symbolizer", "symbolizer-2": "symbolizer", "indexer-1": "indexer", "indexer-2": "indexer",
            "builder-1": "builder", "builder-2": "builder"}


class Product:
    def __init__(self, folder: Path, program: Path, clock, is_oldest: bool, brokers: int):
        self.folder, self.clock = folder, clock
        self.program = self.install(program, "unslide")
        environment = self.environment()
        binaries = oldest_postgres() if is_oldest else newest_servers() / "postgres"
        self.login = security.Login()
        self.authority = security.Authority(folder / "authority-1", environment)
        self.authorities = folder / "authorities.pem"
        self.trust(self.authority)
        self.postgres = Postgres(folder, binaries, environment, self.authority)
        self.kafka = Kafka(folder, environment, self.authority, brokers)
        self.objects = ObjectStorage(folder, Path(os.environ["UNSLIDE_S3_BIN"]), environment)
        self.keycloak = Keycloak(folder, environment)
        self.objects.set_keys(self.login)
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

    def settings(self, kind: str) -> dict[str, str]:
        """Returns what Kubernetes' Secrets have for a service or a command, and what one broker asks for."""
        login, kafka, brokers = self.login, self.kafka.client(self.login, kind, self.authorities), len(self.kafka.brokers)
        url = self.postgres.url(login.database, None, login.password, f"?sslmode=verify-full&sslrootcert={self.authorities}")
        return self.objects.settings(login) | {
            "UNSLIDE_CONFIG": str(self.config), "UNSLIDE_OBJECTS__PATH_STYLE": "true",
            "UNSLIDE_KAFKA__BOOTSTRAP": kafka["bootstrap.servers"], "UNSLIDE_KAFKA__SECURITY__PROTOCOL": kafka["security.protocol"],
            "UNSLIDE_KAFKA__SECURITY__MECHANISM": kafka["sasl.mechanism"], "UNSLIDE_KAFKA__SECURITY__USERNAME": kafka["sasl.username"],
            "UNSLIDE_KAFKA__SECURITY__PASSWORD": kafka["sasl.password"], "UNSLIDE_KAFKA__SECURITY__CA": kafka["ssl.ca.location"],
            "UNSLIDE_API__SIGN_IN__NETWORKS": '["127.0.0.0/8"]', "UNSLIDE_API__SIGN_IN__PORTS": f"[{self.keycloak.port}]",
            "UNSLIDE_KAFKA__REPLICATION_FACTOR": str(brokers), "UNSLIDE_KAFKA__MIN_INSYNC_REPLICAS": str(enough(brokers)),
            "UNSLIDE_KAFKA__PARTITIONS__INPUT": "4", "UNSLIDE_KAFKA__PARTITIONS__OUTPUT": "4",
            "UNSLIDE_POSTGRES__URL": self.postgres.url("postgres") if kind == "migrate" else url}

    def trust(self, *authorities: security.Authority):
        """Sets the authorities that services trust from their next start."""
        self.authorities.write_text("".join(authority.text("ca.pem") for authority in authorities))

    def begin(self):
        """Installs and starts by the first steps of docs/install.md, as they are written there."""
        statements, commands = read_first_start()
        self.start_servers()
        self.postgres.ask("CREATE DATABASE unslide", "postgres")
        self.postgres.ask(statements.replace("…", self.login.password))
        self.make_kafka_users(self.login)
        self.run("migrate", "--topics")
        for kind in dict.fromkeys(SERVICES.values()):
            self.run("config", "check", "--connect", "--service", kind, **self.settings(kind))
        self.start()
        for command in commands.strip().splitlines():
            self.run(*shlex.split(command)[1:])

    def make_kafka_users(self, login: security.Login):
        principals = [word for name in security.LOGINS for word in ("--principal", f"{name}=User:{login.kafka_user(name)}")]
        rights = [right for right in json.loads(self.run("migrate", "--acls", "--json", *principals).stdout) if right["login"] in security.LOGINS]
        security.make_kafka_users(self.kafka.bootstrap, login, rights)

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
        environment = self.environment(**self.settings(kind), UNSLIDE_ADMIN__LISTEN=f"127.0.0.1:{self.admin_ports[name]}",
                                       UNSLIDE_PROCESS__DATA_DIR=str(data), UNSLIDE_API__LISTEN=f"127.0.0.1:{self.api_port}",
                                       POD_NAME=name, HOSTNAME=name)
        if kind == "symbolizer":
            del environment["UNSLIDE_POSTGRES__URL"]
        with open(self.folder / f"{name}.log", "ab") as log:
            self.services[name] = subprocess.Popen([self.program, kind], env=environment, stdout=log, stderr=log, cwd=self.folder, **AS_NOBODY)

    def wait_ready(self, name: str):
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end and self.services[name].poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_ports[name]}/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.3)
        ended = self.services[name].poll()
        what = f"is not ready after {WAIT_SECONDS} s" if ended is None else f"ended with {ended} at its start"
        raise Failed(f"{name} {what}; its log is {self.folder}/{name}.log")

    def kill_service(self, name: str):
        process = self.services.pop(name)
        process.kill()
        process.wait()

    def stop_service(self, name: str):
        process = self.services.pop(name)
        process.terminate()
        process.wait(timeout=WAIT_SECONDS)

    def stop(self):
        # A second signal aborts what still runs.
        for process in self.services.values():
            process.terminate()
        for process in self.services.values():
            process.wait(timeout=WAIT_SECONDS)
        self.services.clear()

    def run(self, *arguments: str, check=True, **more: str) -> subprocess.CompletedProcess:
        """Runs a command of an operator at the clock of the month, with the login that it needs."""
        login = arguments[0] if arguments[0] in ("migrate", "audit") else "api"
        ran = subprocess.run([self.program, *arguments], env=self.environment(**self.settings(login) | more), capture_output=True, text=True,
                             cwd=self.folder, timeout=WAIT_SECONDS, **AS_NOBODY)
        if check and ran.returncode != 0:
            raise Failed(f"`unslide {' '.join(arguments)}` ended with {ran.returncode}: {ran.stdout[-800:]}{ran.stderr[-800:]}")
        return ran

    def sql(self, statement: str) -> str:
        return self.postgres.ask(statement).stdout.strip()

    def processes(self) -> dict[str, subprocess.Popen]:
        servers = {"postgres": self.postgres.process, "s3": self.objects.process, "keycloak": self.keycloak.process}
        servers |= {f"kafka-{broker.number}": broker.process for broker in self.kafka.brokers}
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
        self.keycloak.end()
        for process in self.processes().values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self.postgres.disk.remove()


def read_first_start() -> list[str]:
    """Returns what the installation's page says of the first start: the statements of the roles, and the commands of the first tenant."""
    page = (TOP / "docs/install.md").read_text()
    section = page[page.index("## First start"):page.index("## Kafka logins")]
    return [re.search(rf"```{language}\n(.*?)```", section, re.S)[1] for language in ("sql", "sh")]
