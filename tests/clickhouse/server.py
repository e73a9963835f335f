#!/usr/bin/env python3
"""A ClickHouse for tests: the engine of the package chdb-core behind the part of the HTTP interface that the service uses.

    server.py FOLDER PORT

Keeps its data in FOLDER, listens on this port of the loopback interface, and prints `ready`. Statements run one after the
other in one session, each with the database, settings and parameters of its request, as on a server. The engine has no users, row
policies and clusters: logins are not checked, and statements about these are refused as the engine refuses them.
"""
import email.parser
import email.policy
import http.server
import re
import signal
import sys
import threading
import urllib.parse

from chdb.session import Session

# Fields of a request that are no settings of its statement.
OTHER_FIELDS = {"query", "database", "default_format", "wait_end_of_query", "user", "password", "session_id"}
SETTING_NAME = re.compile(r"[a-z0-9_]+")


def read_form(content_type, body):
    """Returns the fields of a multipart form."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        fields[name] = part.get_payload(decode=True).decode()
    return fields


def quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Engine:
    """One session of the engine."""

    def __init__(self, folder):
        self.session = Session(folder)
        self.lock = threading.Lock()

    def run(self, query, database, output_format, settings, parameters):
        with self.lock:
            changed = [name for name in settings if SETTING_NAME.fullmatch(name)]
            try:
                self.session.query("USE `" + database.replace("`", "") + "`")
                if changed:
                    self.session.query("SET " + ", ".join(f"{name} = {quote(settings[name])}" for name in changed))
                return self.session.query(query, output_format, params=parameters or None).bytes()
            finally:
                if changed:
                    self.session.query("SET " + ", ".join(f"{name} = DEFAULT" for name in changed))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Not after each of two writes.
    wbufsize = -1
    disable_nagle_algorithm = True
    engine = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = self.read_chunks()
        fields = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
        content_type = self.headers.get("Content-Type", "")
        if content_type.startswith("multipart/form-data"):
            fields.update(read_form(content_type, body))
            body = b""
        # Data of an insert follow its statement.
        query = "\n".join(filter(None, [fields.get("query"), body.decode()]))
        parameters = {name.removeprefix("param_"): value for name, value in fields.items() if name.startswith("param_")}
        settings = {
            name: value
            for name, value in fields.items()
            if name not in OTHER_FIELDS and not name.startswith("param_")
        }
        try:
            answer = self.engine.run(
                query,
                fields.get("database", "default"),
                fields.get("default_format", "TabSeparated"),
                settings,
                parameters,
            )
        except Exception as error:
            code = re.match(r"Code: (\d+)", str(error))
            self.answer(500, str(error).encode(), {"X-ClickHouse-Exception-Code": code.group(1)} if code else {})
            return
        self.answer(200, answer or b"", {})

    def do_GET(self):
        self.answer(200, b"Ok.\n", {})

    def read_chunks(self):
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Handler.engine = Engine(sys.argv[1])
    server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
