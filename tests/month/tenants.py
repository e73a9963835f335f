"""A tenant with the key that may do everything, and what it was sent."""

import csv
import json
import time
import urllib.error
import urllib.request

from servers import Failed

RETRIES = 200


def send(request: urllib.request.Request, timeout=90):
    """Sends a request until it is taken, as clients do: a server that is away or busy is asked again. Returns the body and the headers."""
    for _ in range(RETRIES):
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise Failed(f"{request.method} {request.selector}: {error.code} {error.read()[:400]!r}") from error
            time.sleep(min(int(error.headers.get("retry-after", "1")), 5))
        except OSError:
            time.sleep(0.5)
    raise Failed(f"{request.method} {request.selector}: still refused after {RETRIES} tries")


class Tenant:
    def __init__(self, slug: str, base: str):
        self.slug, self.base, self.key = slug, base, ""
        # None is the first.
        self.cell = None
        # By report id: app, version, person, kind, day.
        self.reports: dict[str, dict] = {}
        # By app: all sessions, and those that crashed.
        self.sessions: dict[str, list[int]] = {}
        self.erased: set[str] = set()
        # Seconds that requests of apps took, since the last question.
        self.seconds: list[float] = []
        self.public_key = self.other_public_key = None

    def request(self, method: str, path: str, body=None, raw: bytes | None = None):
        headers = {"authorization": f"Bearer {self.key}"}
        data = raw
        if body is not None:
            data, headers["content-type"] = json.dumps(body).encode(), "application/json"
        content, _ = send(urllib.request.Request(self.base + path, data=data, headers=headers, method=method))
        return json.loads(content) if content else None

    def revision(self, id: str) -> int:
        request = urllib.request.Request(f"{self.base}/v1/reports/{id}", headers={"authorization": f"Bearer {self.key}"}, method="GET")
        return int(send(request)[1]["x-report-revision"])

    def send_as_app(self, body: bytes, content_type="application/json", key=None, below=""):
        """Sends reports, or what is sent below their address, as an app does, with a public key in the path."""
        path, began = f"{self.base}/i/{key or self.public_key}{below}", time.monotonic()
        answer = send(urllib.request.Request(path, data=body, headers={"content-type": content_type, "accept": "application/json"}, method="POST"))
        self.seconds.append(time.monotonic() - began)
        return answer

    def sent_sessions(self, app: str, count: int, crashed: int):
        before = self.sessions.setdefault(app, [0, 0])
        self.sessions[app] = [before[0] + count, before[1] + crashed]

    def counted_sessions(self, app: str) -> list[int]:
        """Returns all sessions of an app that are counted, and those that crashed."""
        try:
            period = self.request("GET", f"/v1/apps/{app}/health?days=60")["period"]
        except Failed as error:
            if "404" not in str(error):
                raise
            return [0, 0]
        return [period["sessions"], period["crashed_sessions"]]

    def rows(self, path: str) -> list[dict[str, str]]:
        """Returns a list as CSV."""
        headers = {"authorization": f"Bearer {self.key}", "accept": "text/csv"}
        content, _ = send(urllib.request.Request(self.base + path, headers=headers))
        return list(csv.DictReader(content.decode().splitlines()))

    def listed(self) -> set[str]:
        return {one["id"] for one in self.pages("/v1/reports")}

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
