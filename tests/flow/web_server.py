"""A web server on this machine for tests: files from memory, and the faults of real servers and networks."""

import contextlib
import http.server
import threading


class Served:
    """What the server has and does. Tests change it while it runs."""

    def __init__(self, files):
        self.files = files          # path without slash -> bytes
        self.cut_after = None       # bytes of a body, after which the connection is closed
        self.ranges = True          # answers requests for the rest of a file
        self.redirects = {}         # path without slash -> address
        self.slow = threading.Event()
        self.slow.set()             # cleared: a body waits before its second half
        self.requests = []          # (path, Range)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802, the library's name
        served, name, wanted = self.server.served, self.path.lstrip("/"), self.headers.get("Range")
        served.requests.append((name, wanted))
        if name in served.redirects:
            return self.answer(302, {"Location": served.redirects[name]}, b"")
        if name not in served.files:
            return self.answer(404, {}, b"no such file\n")
        body, first = served.files[name], 0
        if wanted and served.ranges:
            first = int(wanted.removeprefix("bytes=").split("-")[0])
            if first >= len(body):
                return self.answer(416, {"Content-Range": f"bytes */{len(body)}"}, b"")
        if first == 0:
            return self.answer(200, {}, body)
        return self.answer(206, {"Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}, body[first:])

    def answer(self, status, headers, body):
        served = self.server.served
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = body if served.cut_after is None else body[:served.cut_after]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(sent[:len(sent) // 2])
            self.wfile.flush()
            served.slow.wait(60)
            self.wfile.write(sent[len(sent) // 2:])
        self.close_connection = len(sent) < len(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that was killed or refuses a certificate is no fault of the server."""


@contextlib.contextmanager
def serving(files, tls=None):
    """The address of a server of these files, and what it does; tls: an ssl.SSLContext."""
    server = Server(("127.0.0.1", 0), Handler)
    server.served = Served(files)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}/", server.served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
