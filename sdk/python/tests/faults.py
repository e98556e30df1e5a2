"""A proxy that loses, repeats and spoils, and a server that is started, killed and frozen."""

from __future__ import annotations

import http.client
import http.server
import os
import random
import signal
import socket
import subprocess
import threading
import time
from typing import Any

FAULTS = ("request lost", "answer lost", "answer cut", "duplicate", "late duplicate", "delay", "garbage", "unavailable", "redirect")


class Proxy:
    """Passes each request on, or does to it what the next of the faults says. The draws are those of a seed."""

    def __init__(self, target: int, seed: int, share: float) -> None:
        self.random, self.share, self.faults = random.Random(seed), share, dict.fromkeys(FAULTS, 0)
        self.deck: list[str] = []
        self.mutex = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def pass_on(self, body: bytes) -> tuple[int, str, bytes]:
                c = http.client.HTTPConnection("127.0.0.1", target, timeout=60)
                c.request(self.command, self.path, body, {"Content-Type": "application/json"})
                r = c.getresponse()
                content = r.read()
                c.close()
                return r.status, r.headers.get("Content-Type", ""), content

            def answer(self, status: int, kind: str, content: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if kind:
                    self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = proxy.draw()
                self.close_connection = fault in ("request lost", "answer lost", "answer cut")
                if fault == "request lost":
                    return
                if fault == "redirect":
                    return self.answer(307, "", b"", Location="http://127.0.0.1:1/")
                try:
                    status, kind, content = self.pass_on(body)
                    if fault == "duplicate":
                        status, kind, content = self.pass_on(body)
                    if fault == "late duplicate":  # it arrives when other requests have been carried out
                        later = threading.Timer(0.2, self.pass_on, (body,))
                        later.daemon = True
                        later.start()
                    if fault == "delay":
                        time.sleep(0.1)
                except (OSError, http.client.HTTPException):  # the server is away
                    self.close_connection = True
                    return
                if fault == "answer lost":
                    return
                if fault == "answer cut":
                    self.wfile.write(
                        f"HTTP/1.1 {status} \r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content[: len(content) // 2])
                    return
                if fault == "garbage":
                    content = content[: len(content) // 2]
                if fault == "unavailable":
                    status, kind, content = 503, "text/html", b"<h1>Bad gateway</h1>"
                self.answer(status, kind, content)

            do_GET = do_POST = do_DELETE = handle_one

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass  # the client hung up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def draw(self) -> str:
        with self.mutex:
            if self.random.random() >= self.share:
                return ""
            if not self.deck:  # each of them comes once before one comes again
                self.deck = self.random.sample(FAULTS, len(FAULTS))
            fault = self.deck.pop()
            self.faults[fault] += 1
            return fault

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Gateway:
    """Passes each request on, and holds back, while it is told to, those that give nothing up: they are delivered
    later."""

    def __init__(self, target: int) -> None:
        self.holds = False
        self.held: list[tuple[str, bytes]] = []  # paths and bodies
        self.passed: list[str] = []  # paths
        self.changed = threading.Condition()
        self.over = threading.Event()
        self.target = target
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if gateway.holds and b'"give_up"' not in body:
                    with gateway.changed:
                        gateway.held.append((self.path, body))
                        gateway.changed.notify_all()
                    gateway.over.wait()  # its client gives up before that
                    self.close_connection = True
                    return
                status, headers, content = gateway.deliver(self.path, body)
                gateway.passed.append(self.path)
                self.send_response_only(status)
                for name in ("Content-Type", "Content-Length"):
                    if name in headers:
                        self.send_header(name, headers[name])
                self.end_headers()
                self.wfile.write(content)

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # the client hung up

        self.server = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def deliver(self, path: str, body: bytes) -> tuple[int, Any, bytes]:
        """Send a request to the server."""
        c = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        try:
            c.request("POST", path, body, {"Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def until_held(self, count: int, seconds: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.held) >= count, seconds)

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


class Server:
    """leasehold serve on a store in a folder."""

    def __init__(self, binary: str, folder: str) -> None:
        self.binary, self.folder = binary, folder
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = int(s.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("LEASEHOLD_")}
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--store", "sqlite", "--data", self.folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        end = time.monotonic() + 60
        while True:
            try:
                c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                c.request("GET", "/readyz")
                if c.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                c.close()
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("the server does not start")
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)
