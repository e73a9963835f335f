"""The clock of the month, for the programs of the product and its servers: they are moved by an offset from the real time. The month ends at
the real time, at which the driver, object storage's proxy and Prometheus stay.
"""

import struct
import subprocess
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

# The store asks PostgreSQL for the time once a minute.
CLOCK_SECONDS = 62


class Clock:
    def __init__(self, folder: Path, days: int):
        self.file, self.library = folder / "clock", folder / "clock.so"
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", self.library, source, "-ldl"], check=True)
        self.behind, self.moved = timedelta(days=days), 0.0
        self.file.write_bytes(bytes(8))
        for file in (self.file, self.library):
            file.chmod(0o644)
        self.write()

    def write(self):
        with open(self.file, "r+b") as file:
            file.write(struct.pack("=q", -int(self.behind.total_seconds())))

    def now(self) -> datetime:
        return datetime.now(timezone.utc) - timedelta(seconds=int(self.behind.total_seconds()))

    def advance(self, by: timedelta):
        """Moves the clock forward, never beyond the real time."""
        self.behind = max(self.behind - by, timedelta())
        self.write()
        self.moved = time.monotonic()

    def settle(self):
        """Waits until all services have the time to which the clock moved."""
        time.sleep(max(0, self.moved + CLOCK_SECONDS - time.monotonic()))

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "UNSLIDE_MONTH_CLOCK": str(self.file)}
