"""Plays answers for the tests: the path says which. Prints its port, and appends each request to the file of its argument."""
import http.server
import json
import sys
import time

ANSWERS = {
    "/accepted": (202, {}, b'{"accepted": ["id"], "refused": []}'),
    "/refused": (202, {}, b'{"accepted": [], "refused": [{"index": 0, "id": null, "type": "wrong_app", "detail": "another app"}]}'),
    "/damaged": (400, {}, b"the form ends before its last boundary"),
    "/unknown": (401, {}, b"unknown key"),
    "/large": (413, {}, b"6.1 MB, the limit is 5 MB"),
    "/busy": (429, {"Retry-After": "1"}, b"too many reports, retry after 1 s"),
    "/moved": (301, {"Location": "/page"}, b""),
    "/latin": (500, {}, b"r\xe9p\xe9tez"),
}


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps([self.path, dict(self.headers), body.hex()]) + "\n")
        if self.path == "/silent":
            time.sleep(60)
            return
        self.answer(*ANSWERS[self.path])

    def do_GET(self):
        self.answer(200, {}, b"a start page")

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
print(server.server_address[1], flush=True)
server.serve_forever()
