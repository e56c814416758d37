"""What stands between a run and an S3 server in tests: a service of keys, and a relay that kills the server."""

import collections
import contextlib
import http.server
import json
import re
import socket
import threading

import s3_server


@contextlib.contextmanager
def role_service():
    """What gives a container the keys of its role; yields its port."""
    keys = {"AccessKeyId": s3_server.KEY_ID, "SecretAccessKey": s3_server.SECRET, "Token": "",
            "Expiration": "2100-01-01T00:00:00Z"}

    class Keys(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(keys).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield service.server_port
        service.shutdown()


class Between:
    """A way to the server that notes the requests on it. While the first is answered for which kill_at(requests), all
    so far, is true, the server is killed."""

    def __init__(self, server, kill_at=lambda requests: False):
        self.server, self.kill_at, self.killed = server, kill_at, False
        self.requests, self.lock = [], threading.Lock()
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listening.accept()[0],), daemon=True).start()

    def serve(self, client):
        last = threading.Event()

        def note(data):
            # A client sends its next request when it has the last answer, so a request begins what is received.
            if request := re.match(rb"(GET|HEAD|PUT|POST) \S+(?= HTTP/)", data):
                with self.lock:
                    self.requests.append(request[0].decode())
                    if not self.killed and self.kill_at(self.requests):
                        self.killed = True
                        last.set()
            server.sendall(data)

        def answer(data):
            if last.is_set():
                # a small answer is sent whole or not at all
                client.sendall(data[:len(data) // 2] if len(data) > 4096 else b"")
                self.server.kill()
                raise ConnectionAbortedError
            client.sendall(data)

        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port)) as server:
            threading.Thread(target=self.pass_on, args=(client, server, note), daemon=True).start()
            self.pass_on(server, client, answer)

    @staticmethod
    def pass_on(source, to, give):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                give(data)
        for connection in (source, to):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def objects(self):
        """How often each object was read."""
        return collections.Counter(request.partition("?")[0] for request in self.requests
                                   if re.match(r"GET \S+\.png", request))
