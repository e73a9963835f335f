"""The product's programs in the month: `unslide dev` with the servers, and further services as processes of their own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

NOBODY = 65534


class Failed(Exception):
    """A promise of the product is broken, or a step of the month cannot go on."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Product:
    def __init__(self, folder: Path, program: Path, clock):
        self.folder, self.clock = folder, clock
        # Where the user of PostgreSQL can run it.
        self.program = folder / "unslide"
        shutil.copy(program, self.program)
        self.program.chmod(0o755)
        # Kafka stays at the real time.
        java = folder / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {shutil.which("java")} "$@"\n')
        for path in (java.parent, java):
            path.chmod(0o755)
        self.base = {
            "PATH": f"{java.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "UNSLIDE_CACHE": os.environ.get("UNSLIDE_CACHE", "/var/cache/unslide"),
        }
        self.services: dict[str, subprocess.Popen] = {}
        self.facts = None
        self.dev = None

    def environment(self, **more: str) -> dict[str, str]:
        return self.base | self.clock.environment() | more

    def start(self):
        """Starts `unslide dev` with its data of before, and waits until it is ready."""
        out = self.folder / "facts"
        listen = f"127.0.0.1:{free_port()}"
        with open(out, "wb") as facts, open(self.folder / "dev.log", "ab") as log:
            self.dev = subprocess.Popen(
                [self.program, "dev", "--json", "--verbose", "--data-dir", self.folder / "data", "--listen", listen],
                env=self.environment(), stdout=facts, stderr=log, user=NOBODY, group=NOBODY, extra_groups=[], cwd=self.folder)
        for _ in range(600):
            text = out.read_text()
            if text.endswith("\n"):
                self.facts = json.loads(text.splitlines()[0])
                return
            if self.dev.poll() is not None:
                break
            time.sleep(0.2)
        raise Failed(f"unslide dev did not start; its log is {self.folder}/dev.log")

    def config(self) -> str:
        return self.facts["config"]

    def start_service(self, name: str, kind: str):
        """Starts a service of this kind beside those of `unslide dev`."""
        data = self.folder / f"data-{name}"
        data.mkdir(exist_ok=True)
        os.chown(data, NOBODY, NOBODY)
        environment = self.environment(
            UNSLIDE_CONFIG=self.config(), UNSLIDE_ADMIN__LISTEN="127.0.0.1:0", UNSLIDE_PROCESS__DATA_DIR=str(data),
            UNSLIDE_API__LISTEN="127.0.0.1:0", HOSTNAME=name)
        with open(self.folder / f"{name}.log", "ab") as log:
            self.services[name] = subprocess.Popen(
                [self.program, kind], env=environment, stdout=log, stderr=log, user=NOBODY, group=NOBODY, extra_groups=[],
                cwd=self.folder)

    def kill_service(self, name: str):
        process = self.services.pop(name)
        process.kill()
        process.wait()

    def run(self, *arguments: str, environment=None, check=True) -> subprocess.CompletedProcess:
        """Runs a command of the program at the clock of the month."""
        ran = subprocess.run(
            [self.program, *arguments], env=self.environment(UNSLIDE_CONFIG=self.config(), **(environment or {})),
            capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd=self.folder, timeout=600)
        if check and ran.returncode != 0:
            raise Failed(f"`unslide {' '.join(arguments)}` ended with {ran.returncode}: {ran.stdout[-800:]}{ran.stderr[-800:]}")
        return ran

    def dead(self) -> list[str]:
        """Names the processes that ended by themselves."""
        processes = {"dev": self.dev} | self.services
        return [name for name, process in processes.items() if process and process.poll() is not None]

    def memory(self) -> dict[str, int]:
        """Returns the resident kilobytes of each process."""
        def resident(process):
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
            return 0
        processes = {"dev": self.dev} | self.services
        return {name: resident(process) for name, process in processes.items() if process.poll() is None}

    def stop(self):
        for process in self.services.values():
            process.terminate()
        for process in self.services.values():
            process.wait()
        self.services.clear()
        if self.dev and self.dev.poll() is None:
            self.dev.send_signal(signal.SIGTERM)
            self.dev.wait(timeout=120)

    def sql(self, statement: str) -> str:
        """Asks PostgreSQL, without the clock of the month."""
        asked = subprocess.run(["psql", self.postgres(), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", statement],
                               capture_output=True, text=True, timeout=120)
        if asked.returncode != 0:
            raise Failed(f"psql: {asked.stderr}")
        return asked.stdout.strip()

    def postgres(self) -> str:
        with open(self.config(), "rb") as config:
            return tomllib.load(config)["postgres"]["url"]


class Tenant:
    """A tenant with the key that may do everything, and what it was sent."""

    def __init__(self, slug: str, base: str, key: str):
        self.slug, self.base, self.key = slug, base.rstrip("/"), key
        self.reports: dict[str, dict] = {}
        self.erased: set[str] = set()
        self.public_url = None

    def request(self, method: str, path: str, body=None, raw: bytes | None = None, key=None, timeout=90):
        headers = {"authorization": f"Bearer {key or self.key}"}
        data = raw
        if body is not None:
            data, headers["content-type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.base + path, data=data, headers=headers, method=method)
        for _ in range(200):
            try:
                with urllib.request.urlopen(request, timeout=timeout) as answer:
                    content = answer.read()
                    return json.loads(content) if content else None
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise Failed(f"{method} {path}: {error.code} {error.read()[:400]!r}") from error
                time.sleep(min(int(error.headers.get("retry-after", "1")), 5))
        raise Failed(f"{method} {path}: still refused after 200 tries")

    def pages(self, path: str, limit=200):
        """Yields the items of all pages of a list."""
        cursor, separator = None, "&" if "?" in path else "?"
        while True:
            more = f"&cursor={cursor}" if cursor else ""
            page = self.request("GET", f"{path}{separator}limit={limit}{more}")
            yield from page["items"]
            cursor = page.get("next_cursor") or page.get("next")
            if not cursor:
                return
