"""A proxy in front of object storage that can be silent, slow, refuse or be away."""

import socket
import threading
import time

REFUSAL = (b"HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\nconnection: close\r\n\r\n"
           b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")


class Proxy:
    """`mode` is pass, silent, slow, refuse or away. It holds for connections that are open, too."""

    def __init__(self, target: tuple[str, int]):
        self.target, self.mode = target, "pass"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            if self.mode == "away":
                return
            if self.mode == "refuse":
                client.recv(65536)
                client.sendall(REFUSAL)
                return
            try:
                with socket.create_connection(self.target) as server:
                    back = threading.Thread(target=self.copy, args=(server, client, True), daemon=True)
                    back.start()
                    self.copy(client, server, False)
                    back.join()
            except OSError:
                pass

    def copy(self, source, sink, is_answer):
        try:
            while data := source.recv(16384):
                while self.mode == "silent":
                    time.sleep(0.2)
                if self.mode == "slow" and is_answer:
                    time.sleep(0.3)
                if self.mode in ("away", "refuse"):
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
