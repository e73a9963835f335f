"""Reports, sessions and builds of the month, from the demo's report and dSYM."""

import copy
import json
import random
import uuid
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

DEMO = Path(__file__).resolve().parents[2] / "tools" / "dev" / "demo"
OWN_UUID = "4C4C44B6-5555-3144-A12A-80A257B474E2"
CRASH = json.loads((DEMO / "crash.json").read_text())
BUNDLES = uuid.UUID("5c0a8d3e-9b1f-5e6a-8f27-3d4c1b7a6e90")
SOURCE = """export function heat(oven) {
  return oven.timer.start();
}

export function bake(order) {
  return heat(order.oven);
}
"""


class Build:
    """A version of an app with the debug id of its program."""

    def __init__(self, app: str, version: str, number: str, seed: random.Random):
        self.app, self.version, self.number = app, version, number
        self.bugs, self.released_at, self.has_symbols = (0,), 0, False
        self.debug_id = str(uuid.UUID(int=seed.getrandbits(128), version=4)).upper()

    def dsym(self) -> bytes:
        """Returns the demo's debug information under the build's own id."""
        with zipfile.ZipFile(DEMO / "Cafe.dSYM.zip") as archive:
            content = archive.read("Cafe.dSYM/Contents/Resources/DWARF/Cafe")
        old, new = uuid.UUID(OWN_UUID).bytes, uuid.UUID(self.debug_id).bytes
        assert content.count(old) == 1
        return content.replace(old, new)

    def bundle_id(self) -> str:
        """Returns the debug id of the build's JavaScript bundle (docs/javascript.md#bundles)."""
        return str(uuid.uuid5(BUNDLES, "\n".join((self.app, "ios", self.version, self.number, "main.jsbundle"))))

    def source_map(self) -> bytes:
        """Returns the source map of the build's bundle. Column 10 of the bundle is line 2, column 20 is line 6."""
        return json.dumps({"version": 3, "debugId": self.bundle_id(), "sources": ["src/oven.ts"], "sourcesContent": [SOURCE],
                           "names": ["heat"], "mappings": "AAAA,UACS,UAIAA"}).encode()


def crash(build: Build, seed: random.Random, at: datetime, person: str, bug: int = 0) -> dict:
    """Returns a crash of a person's device. `bug` leaves out that many of the app's innermost frames, so that it is another group."""
    report = copy.deepcopy(CRASH)
    report["report"]["id"] = str(uuid.UUID(int=seed.getrandbits(128), version=4))
    report["report"]["timestamp"] = int(at.timestamp() * 1e6)
    system = report["system"]
    system |= {
        "CFBundleIdentifier": build.app, "CFBundleShortVersionString": build.version, "CFBundleVersion": build.number,
        "app_uuid": build.debug_id, "device_app_hash": f"{build.app}-{person}".encode().hex()[:40].ljust(40, "0"),
        "machine": seed.choice(["iPhone14,5", "iPhone15,2", "iPhone16,1", "iPad14,3"]),
        "system_version": seed.choice(["17.6", "18.1", "18.2"]),
    }
    slide = seed.randrange(0x100) << 14
    for image in report["binary_images"]:
        if image["uuid"] == OWN_UUID:
            image["uuid"], loaded = build.debug_id, image["image_addr"]
            image["image_addr"] += slide
    for thread in report["crash"]["threads"]:
        for frame in thread.get("backtrace", {}).get("contents", []):
            if frame.get("object_addr") == loaded:
                for member in ("object_addr", "symbol_addr", "instruction_addr"):
                    frame[member] += slide
        if thread.get("crashed"):
            del thread["backtrace"]["contents"][:bug]
    report["user"] = {"id": person, "note": f"marker-{person}"}
    return report


def session(build: Build, seed: random.Random, at: datetime, person: str, crashed: bool) -> dict:
    return {
        "id": str(uuid.UUID(int=seed.getrandbits(128), version=4)), "installation": f"i-{build.app}-{person}", "user": person,
        "app": build.app, "version": build.version, "build": build.number,
        "started_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "ended_at": (at + timedelta(minutes=seed.randrange(1, 30))).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "end_reason": "crashed" if crashed else "exited",
    }
