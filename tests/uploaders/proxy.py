"""A proxy on the loopback interface that injects one fault between a client and a server.

    with Proxy("http://127.0.0.1:8080") as proxy:
        proxy.fault = Fault("POST", r"chunk-upload/$", "cut", 100_000)
        ...                                      # give the client proxy.base

Faults: `cut` N resets both connections after N bytes of the body; `swallow` passes the request on and resets instead of
answering; `halve` answers half of the body; `status` N answers this status and passes nothing on; `delay` S waits S seconds.
Each connection carries one request, so that requests can be told apart. Absolute upload URLs in answers are rewritten to
the proxy's.
"""
import http.client
import json
import re
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 120
PIECE_BYTES = 65_536


class Fault:
    """A fault that hits the first matching request."""

    def __init__(self, method, path, kind, value=None):
        self.method, self.path, self.kind, self.value = method, path, kind, value
        self.is_met = False

    def matches(self, method, path):
        return not self.is_met and method == self.method and re.search(self.path, path) is not None


def reset(connection):
    """Closes a connection with a reset, as a crashed server or a broken network does."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    except OSError:
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_SECONDS

    def log_message(self, *arguments):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def body_pieces(self):
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.is_chunked():
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left and (piece := self.rfile.read(min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece

    def is_chunked(self):
        return self.headers.get("Transfer-Encoding", "").lower() == "chunked"

    def serve(self):
        proxy, self.close_connection = self.server.proxy, True
        fault = proxy.take_fault(self.command, self.path)
        if fault and fault.kind == "delay":
            time.sleep(fault.value)
        if fault and fault.kind == "status":
            for _ in self.body_pieces():
                pass
            return self.answer(fault.value, [("Content-Type", "application/json")], json.dumps({"detail": "a fault"}).encode())
        try:
            upstream = socket.create_connection((proxy.host, proxy.port), TIMEOUT_SECONDS)
        except OSError:
            return reset(self.connection)
        with upstream:
            if not self.pass_request(upstream, fault):
                reset(upstream)
                return reset(self.connection)
            try:
                response = http.client.HTTPResponse(upstream, method=self.command)
                response.begin()
                body = response.read()
            except (OSError, http.client.HTTPException):
                return reset(self.connection)
        if fault and fault.kind == "swallow":
            return reset(self.connection)
        body = body.replace(proxy.upstream.encode(), proxy.base.encode())
        dropped = ("connection", "content-length", "transfer-encoding", "keep-alive")
        headers = [(name, value) for name, value in response.getheaders() if name.lower() not in dropped]
        self.answer(response.status, headers, body, halve=bool(fault and fault.kind == "halve"))

    def pass_request(self, upstream, fault):
        """Sends the request on. Returns False if the fault cut it."""
        limit = fault.value if fault and fault.kind == "cut" else None
        headers = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items()
                          if name.lower() not in ("connection", "expect", "te"))
        head = f"{self.command} {self.path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"
        framed = (lambda piece: b"%x\r\n%s\r\n" % (len(piece), piece)) if self.is_chunked() else (lambda piece: piece)
        try:
            upstream.sendall(head.encode("latin1"))
            sent = 0
            for piece in self.body_pieces():
                if limit is not None and sent + len(piece) > limit:
                    upstream.sendall(framed(piece[:limit - sent]) if limit > sent else b"")
                    return False
                upstream.sendall(framed(piece))
                sent += len(piece)
            if limit is not None:
                return False
            if self.is_chunked():
                upstream.sendall(b"0\r\n\r\n")
        except OSError:
            pass                                  # the server may have answered early
        return True

    def answer(self, status, headers, body, halve=False):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if halve else body)
        if halve:
            self.wfile.flush()
            reset(self.connection)

    do_GET = do_POST = do_PUT = serve


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *arguments):
        pass


class Proxy:
    def __init__(self, upstream):
        address = urlsplit(upstream)
        self.upstream, self.host, self.port = upstream.rstrip("/"), address.hostname, address.port or 80
        self.lock, self.fault = threading.Lock(), None

    def take_fault(self, method, path):
        with self.lock:
            if self.fault is None or not self.fault.matches(method, path):
                return None
            self.fault.is_met = True
            return self.fault

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.proxy = self
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *arguments):
        self.server.shutdown()
        self.server.server_close()
