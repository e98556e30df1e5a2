"""Payment servers, plain and in each framework, of which one is killed (kill -9) again and again while requests for the same keys come to both. They need LEASEHOLD_BIN, and the frameworks
/usr/bin/python3 with Debian's packages."""

from __future__ import annotations

import collections
import http.client
import importlib
import json
import tempfile
import threading
import time
import unittest
from pathlib import Path

from test_server import Child, LONG, WithServer

SHOP = """
    import asyncio, json, os, random, socket, socketserver, sys, time
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    import leasehold
    from leasehold.idempotency import Middleware

    framework, url, ledger = sys.argv[1:4]
    # Two processes have two ports.
    payments = Middleware(
        leasehold.Client(url).runs("shop"), lambda r: "ann", name="payments", ttl=2, wait=60, ignore_host=True, warn=lambda err: None)

    def paid(body):
        key = json.loads(body)["key"]
        with open(ledger, "ab", buffering=0) as file:
            file.write(f"{key} {os.getpid()}\\n".encode())
        return {"key": key, "by": os.getpid()}

    def pay(body):
        time.sleep(random.random() / 10)
        made = paid(body)
        time.sleep(random.random() / 10)
        return made

    async def pay_async(body):
        await asyncio.sleep(random.random() / 10)
        made = paid(body)
        await asyncio.sleep(random.random() / 10)
        return made

    def wsgi():
        def app(environ, start_response):
            made = pay(environ["wsgi.input"].read())
            start_response("201 Created", [("Content-Type", "application/json")])
            return [json.dumps(made).encode()]

        return payments.wsgi(app)

    def flask():
        from flask import Flask, jsonify, request

        app = Flask("shop")
        app.post("/")(lambda: (jsonify(pay(request.get_data())), 201))
        return payments.wsgi(app)

    urlpatterns = []

    def django(view):
        import django
        from django.conf import settings
        from django.urls import path

        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
        django.setup()
        urlpatterns.append(path("", view))

    def django_wsgi():
        from django.core.wsgi import get_wsgi_application
        from django.http import JsonResponse

        django(lambda request: JsonResponse(pay(request.body), status=201))
        return payments.wsgi(get_wsgi_application())

    def django_asgi():
        from django.core.asgi import get_asgi_application
        from django.http import JsonResponse

        async def view(request):
            return JsonResponse(await pay_async(request.body), status=201)

        django(view)
        return payments.asgi(get_asgi_application())

    def starlette():
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def view(request):
            return JSONResponse(await pay_async(await request.body()), 201)

        app = Starlette(routes=[Route("/", view, methods=["POST"])])
        app.add_middleware(payments.asgi)
        return app

    def fastapi():
        from fastapi import FastAPI, Request

        app = FastAPI()

        @app.post("/", status_code=201)
        async def view(request: Request):
            return await pay_async(await request.body())

        app.add_middleware(payments.asgi)
        return app

    app = globals()[framework]()
    if framework in ("django_asgi", "starlette", "fastapi"):
        import uvicorn

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        print("port", listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])
    else:
        class Server(socketserver.ThreadingMixIn, WSGIServer):
            daemon_threads, request_queue_size = True, 128

        class Handler(WSGIRequestHandler):
            def log_message(self, *_): pass

        server = Server(("127.0.0.1", 0), Handler)
        server.set_app(app)
        print("port", server.server_port, flush=True)
        server.serve_forever()
"""

FRAMEWORKS = {
    "wsgi": (), "flask": ("flask",), "django_wsgi": ("django",), "django_asgi": ("django", "uvicorn"), "starlette": ("starlette", "uvicorn"), "fastapi": ("fastapi", "uvicorn"),
}
WAVES, KEYS, CALLERS = 3, 6, 4


class Storm(WithServer):
    def serve(self, framework: str, ledger: Path) -> tuple[Child, int]:
        child = Child(SHOP, framework, self.server.url, str(ledger))
        self.addCleanup(child.process.wait)
        self.addCleanup(child.process.kill)
        return child, int(child.until("port")[-1].split()[1])

    def storm(self, framework: str) -> None:
        """Each key has one payment, but for what no middleware can prevent: one more for a process that was killed between its payment and the end of its request. All callers of a key
        get the response of the last one."""
        for module in FRAMEWORKS[framework]:
            try:
                importlib.import_module(module)
            except ImportError:
                self.skipTest(f"no {module}: apt-get install python3-{module}, and run with /usr/bin/python3")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ledger = Path(folder.name, "ledger")
        ledger.touch()

        def payers() -> dict[str, list[int]]:
            found: dict[str, list[int]] = collections.defaultdict(list)
            for line in ledger.read_text().splitlines():
                key, process = line.split()
                found[key].append(int(process))
            return found

        end = time.monotonic() + LONG
        servers = [self.serve(framework, ledger) for _ in range(2)]
        got: dict[str, list[tuple[int, str]]] = collections.defaultdict(list)

        def send(key: str, turn: int) -> None:
            """Send a payment again and again, to one server and the other, until it has a response."""
            while time.monotonic() < end:
                connection = http.client.HTTPConnection("127.0.0.1", servers[turn % 2][1], timeout=LONG)
                turn += 1
                try:
                    connection.request("POST", "/", json.dumps({"key": key}), {"Content-Type": "application/json", "Idempotency-Key": key})
                    response = connection.getresponse()
                    body = response.read().decode()
                    if response.status not in (409, 503) and body:  # wsgiref may be killed between the first line of a response and the rest
                        got[key].append((response.status, body))
                        return
                except (OSError, http.client.HTTPException):
                    pass  # its server has died
                finally:
                    connection.close()
                time.sleep(0.02)

        callers: list[threading.Thread] = []
        killed: set[int] = set()
        keys: list[str] = []
        for wave in range(WAVES):
            some = [f"{framework}-{wave}-{i}" for i in range(KEYS)]
            keys += some
            for key in some:
                for turn in range(CALLERS):
                    callers.append(threading.Thread(target=send, args=(key, turn)))
                    callers[-1].start()
            victim = servers[0][0].process
            while not any(victim.pid in payers()[key] for key in some) and not all(payers()[key] for key in some):
                self.assertLess(time.monotonic(), end, "no one pays")
                time.sleep(0.005)
            victim.kill()
            killed.add(victim.pid)
            servers[0] = self.serve(framework, ledger)
        for caller in callers:
            caller.join(2 * LONG)
        for key, of in ((key, payers()[key]) for key in keys):
            with self.subTest(key):
                self.assertTrue(of and len(of) == len(set(of)) and set(of[:-1]) <= killed, f"paid by {of}, killed were {killed}")
                self.assertEqual([(status, json.loads(body)) for status, body in got[key]], CALLERS * [(201, {"key": key, "by": of[-1]})])

    def test_wsgi(self) -> None:
        self.storm("wsgi")

    def test_flask(self) -> None:
        self.storm("flask")

    def test_django_wsgi(self) -> None:
        self.storm("django_wsgi")

    def test_django_asgi(self) -> None:
        self.storm("django_asgi")

    def test_starlette(self) -> None:
        self.storm("starlette")

    def test_fastapi(self) -> None:
        self.storm("fastapi")


del WithServer  # it is no test of this file

if __name__ == "__main__":
    unittest.main()
