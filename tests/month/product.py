"""The product's services in the month: one process each, with the environment that deploy/kubernetes gives them. A cell is an installation
of its own on the same servers.
"""

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
import settings_files
from people import Keycloak
from servers import AS_NOBODY, WAIT_SECONDS, Failed, Kafka, ObjectStorage, Postgres, TOP, enough, free_port, newest_servers, oldest_postgres, own_folder

SERVICES = {"api": "api", "symbolizer-1": "symbolizer", "symbolizer-2": "symbolizer", "indexer-1": "indexer", "indexer-2": "indexer",
            "builder-1": "builder", "builder-2": "builder"}


# Rights at the topics of a cell to which tenants move.
ABROAD = {"symbolizer": "Write", "indexer": "Write", "migrate": "Describe"}


class Cell:
    def __init__(self, name: str, login: security.Login, bucket: str, prefix: str):
        self.name, self.login, self.database, self.bucket, self.prefix = name, login, login.database, bucket, prefix
        self.api_port = free_port()

    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"


class Product:
    def __init__(self, folder: Path, program: Path, clock, is_oldest: bool, brokers: int):
        self.folder, self.clock = folder, clock
        self.program = self.install(program, "unslide")
        environment = self.environment()
        binaries = oldest_postgres() if is_oldest else newest_servers() / "postgres"
        self.first = Cell("cell-a", security.Login(), "unslide", "")
        self.cells, self.directory_login = [self.first], None
        self.authority = security.Authority(folder / "authority-1", environment)
        self.authorities = folder / "authorities.pem"
        self.trust(self.authority)
        self.postgres = Postgres(folder, binaries, environment, self.authority)
        self.kafka = Kafka(folder, environment, self.authority, brokers)
        self.objects = ObjectStorage(folder, Path(os.environ["UNSLIDE_S3_BIN"]), environment)
        self.keycloak = Keycloak(folder, environment)
        self.objects.set_keys(self.first.login)
        self.config, self.door_config = folder / "unslide.toml", folder / "door.toml"
        shutil.copy(TOP / "deploy/kubernetes/shared/unslide.toml", self.config)
        shutil.copy(TOP / "deploy/kubernetes/door/unslide.toml", self.door_config)
        self.kinds, self.cell_of, self.admin_ports = {}, {}, {}
        self.add_services(self.first, SERVICES)
        # That of the first api, which the door takes over.
        self.port = self.first.api_port
        self.services: dict[str, subprocess.Popen] = {}

    def add_services(self, cell: Cell, kinds: dict[str, str]):
        for name, kind in kinds.items():
            self.kinds[name], self.cell_of[name], self.admin_ports[name] = kind, cell, free_port()

    def api_url(self) -> str:
        """Returns the address that everyone knows."""
        return f"http://127.0.0.1:{self.port}"

    def install(self, program: Path, name: str) -> Path:
        """Copies a program to where the services' user can run it."""
        copy = self.folder / name
        shutil.copy(program, copy)
        copy.chmod(0o755)
        return copy

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)} | self.clock.environment() | more

    def database_url(self, login: security.Login, database: str) -> str:
        return self.postgres.url(login.database, database, login.password, f"?sslmode=verify-full&sslrootcert={self.authorities}")

    def settings(self, kind: str, cell: Cell | None = None) -> dict[str, str]:
        """Returns what Kubernetes' Secrets have for a service or a command of a cell, and what one broker asks for."""
        cell = cell or self.first
        if kind == "door":
            return {"UNSLIDE_CONFIG": str(self.door_config), "UNSLIDE_DOOR__LISTEN": f"127.0.0.1:{self.port}",
                    "UNSLIDE_CELLS__DIRECTORY": self.database_url(self.directory_login, self.first.database)}
        login, kafka, brokers = cell.login, self.kafka.client(cell.login, kind, self.authorities), len(self.kafka.brokers)
        return self.settings_of_cell(kind, cell) | self.objects.settings(login) | {
            "UNSLIDE_CONFIG": str(self.config), "UNSLIDE_OBJECTS__PATH_STYLE": "true",
            "UNSLIDE_KAFKA__BOOTSTRAP": kafka["bootstrap.servers"], "UNSLIDE_KAFKA__SECURITY__PROTOCOL": kafka["security.protocol"],
            "UNSLIDE_KAFKA__SECURITY__MECHANISM": kafka["sasl.mechanism"], "UNSLIDE_KAFKA__SECURITY__USERNAME": kafka["sasl.username"],
            "UNSLIDE_KAFKA__SECURITY__PASSWORD": kafka["sasl.password"], "UNSLIDE_KAFKA__SECURITY__CA": kafka["ssl.ca.location"],
            "UNSLIDE_API__SIGN_IN__NETWORKS": '["127.0.0.0/8"]', "UNSLIDE_API__SIGN_IN__PORTS": f"[{self.keycloak.port}]",
            "UNSLIDE_KAFKA__REPLICATION_FACTOR": str(brokers), "UNSLIDE_KAFKA__MIN_INSYNC_REPLICAS": str(enough(brokers)),
            "UNSLIDE_KAFKA__PARTITIONS__INPUT": "4", "UNSLIDE_KAFKA__PARTITIONS__OUTPUT": "4",
            "UNSLIDE_POSTGRES__URL": self.postgres.url("postgres", cell.database) if kind == "migrate" else self.database_url(login, cell.database)}

    def settings_of_cell(self, kind: str, cell: Cell) -> dict[str, str]:
        """Returns the variables of deploy/kubernetes/overlays/cells."""
        settings = {"UNSLIDE_OBJECTS__BUCKET": cell.bucket, "UNSLIDE_API__LISTEN": f"127.0.0.1:{cell.api_port}"}
        if cell.prefix:
            settings["UNSLIDE_KAFKA__TOPIC_PREFIX"] = cell.prefix
        if self.directory_login and kind == "api":
            settings |= {"UNSLIDE_CELLS__NAME": cell.name, "UNSLIDE_CELLS__DIRECTORY": self.database_url(self.directory_login, self.first.database),
                         "UNSLIDE_API__TRUSTED_PROXIES": '["127.0.0.0/8"]', "UNSLIDE_API__PUBLIC_URL": self.api_url()}
        return settings

    def trust(self, *authorities: security.Authority):
        """Sets the authorities that services trust from their next start."""
        self.authorities.write_text("".join(authority.text("ca.pem") for authority in authorities))

    def begin(self):
        """Installs and starts by the first steps of docs/install.md, as they are written there."""
        statements, commands = read_first_start()
        self.start_servers()
        self.postgres.ask("CREATE DATABASE unslide")
        self.postgres.ask(statements.replace("…", self.first.login.password))
        self.make_kafka_users(self.first, self.first.login)
        self.run("migrate", "--topics")
        for kind in dict.fromkeys(SERVICES.values()):
            self.run("config", "check", "--connect", "--service", kind, **self.settings(kind))
        self.start()
        for command in commands.strip().splitlines():
            self.run(*shlex.split(command)[1:])

    def make_kafka_users(self, cell: Cell, login: security.Login):
        """Makes the users of a cell with their rights, and with those at the topics of other cells (docs/cells.md#move-a-tenant)."""
        principals = [word for name in security.LOGINS for word in ("--principal", f"{name}=User:{login.kafka_user(name)}")]
        rights = [right for right in json.loads(self.run("migrate", "--acls", "--json", *principals, cell=cell).stdout)
                  if right["login"] in security.LOGINS]
        rights += [{"principal": f"User:{login.kafka_user(name)}", "operations": [operation], "resource": "topic", "pattern": "prefixed", "names": [to.prefix]}
                   for to in self.cells if to.prefix and to is not cell for name, operation in ABROAD.items()]
        security.make_kafka_users(self.kafka.bootstrap, login, rights)

    def start_servers(self):
        for server in (self.postgres, self.kafka, self.objects):
            server.start()

    def stop_servers(self):
        for server in (self.kafka, self.objects, self.postgres):
            server.stop()

    def start(self, names=None):
        names = names or list(self.kinds)
        for name in names:
            self.start_service(name)
        for name in names:
            self.wait_ready(name)

    def start_service(self, name: str):
        kind, data = self.kinds[name], own_folder(self.folder / f"data-{name}")
        environment = self.environment(**self.settings(kind, self.cell_of[name]), UNSLIDE_ADMIN__LISTEN=f"127.0.0.1:{self.admin_ports[name]}",
                                       UNSLIDE_PROCESS__DATA_DIR=str(data), POD_NAME=name, HOSTNAME=name)
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

    def run(self, *arguments: str, check=True, cell: Cell | None = None, **more: str) -> subprocess.CompletedProcess:
        """Runs a command in a pod of a cell at the clock of the month, with the login that it needs."""
        login = arguments[0] if arguments[0] in ("migrate", "audit") else "api"
        return self.execute([self.program, *arguments], self.settings(login, cell) | more, check)

    def operate(self, login: str, *arguments: str, check=True, **more: str) -> subprocess.CompletedProcess:
        """Runs a command about cells on an operator's machine, where the first cell's settings file names those of the others."""
        return self.execute(self.operator_command(login, *arguments), more, check)

    def operator_command(self, login: str, group: str, command: str, *arguments: str) -> list:
        return [self.program, group, command, "--config", str(settings_files.write_all(self, login)), *arguments]

    def run_for_all(self, command: str) -> subprocess.CompletedProcess:
        """Runs a command for each cell."""
        login = "audit" if command == "audit" else "api"
        return self.operate(login, "cells", "run", command, check=False) if len(self.cells) > 1 else self.run(command, check=False)

    def execute(self, command: list, settings: dict[str, str], check: bool) -> subprocess.CompletedProcess:
        ran = subprocess.run(command, env=self.environment(**settings), capture_output=True, text=True, cwd=self.folder, timeout=WAIT_SECONDS,
                             **AS_NOBODY)
        if check and ran.returncode != 0:
            raise Failed(f"`unslide {' '.join(command[1:])}` ended with {ran.returncode}: {ran.stdout[-800:]}{ran.stderr[-800:]}")
        return ran

    def sql(self, statement: str, cell: Cell | None = None) -> str:
        return self.postgres.ask(statement, (cell or self.first).database).stdout.strip()

    def search_tables(self, pattern: str, cell: Cell) -> list[tuple[str, str]]:
        """Returns the tables of a cell with rows that match, and these rows."""
        tables = self.sql("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace", cell).split()
        # One start of psql, and a statement for each table: together they would need more locks than the server has.
        search = "SELECT jsonb_build_array('{0}', string_agg(row::text, ' ')) FROM {0} row WHERE row::text ~ $pattern${1}$pattern$ HAVING count(*) > 0"
        found = self.sql(";\n".join(search.format(table, pattern) for table in tables), cell)
        return [json.loads(line) for line in found.splitlines() if line]

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
