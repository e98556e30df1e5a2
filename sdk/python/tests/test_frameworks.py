"""The middleware in front of Flask, Django, FastAPI and Starlette: what each makes of success, errors and unknown routes. They are of Debian's packages, and of /usr/bin/python3."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import subprocess
import sys
import textwrap
import unittest
import urllib.error
import urllib.request
from typing import Any

from leasehold.idempotency import Middleware, nothing_done
from leasehold.once import current

from test_once import Memory
from test_server import LONG
from virtual import VirtualClock

Got = tuple[int, bool, str]  # status, replayed, text


def framework(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"no {name}: apt-get install python3-{name}, and run with /usr/bin/python3") from None


class Framework:
    """What is tested with each: ask sends one request."""

    runs: list[str]
    assertEqual: Any
    subTest: Any
    fail: Any

    def made(self) -> Middleware:
        self.gate = Memory(VirtualClock())
        self.runs = []
        return Middleware(self.gate, lambda r: "ann", name="payments", warn=lambda err: None)

    def ask(self, path: str, key: str, body: bytes = b'{"amount": 10}', kind: str = "application/json") -> Got:
        raise NotImplementedError

    def pay(self, body: bytes) -> str:
        """The handler of all."""
        self.runs.append(body.decode())
        return f"paid under {current().token}"

    def test_each_way_to_respond(self) -> None:
        """First what the framework makes of it, then the same again: nothing runs twice but what is not stored."""
        for path, status, stored in (("/pay", 201, True), ("/declined", 402, True), ("/busy", 503, False), ("/nothing", 500, False), ("/none", 404, True)):
            with self.subTest(path):
                first, again = self.ask(path, f"k{path}"), self.ask(path, f"k{path}")
                self.assertEqual((first[:2], again[:2]), ((status, False), (status, stored)))
                if stored:
                    self.assertEqual(first[2], again[2])
        self.assertEqual(self.runs, ['{"amount": 10}'])

    def test_what_it_raises(self) -> None:
        """An error of the application is a failure that is stored, whoever makes the response of it."""
        first = self.ask("/breaks", "k")
        again = self.ask("/breaks", "k")
        self.assertEqual((first[:2], again[:2], self.runs), ((500, False), (500, True), ["breaks"]))

    def test_another_request(self) -> None:
        self.ask("/pay", "k")
        self.assertEqual(self.ask("/pay", "k", b'{"amount": 11}')[0], 422)

    def test_forms(self) -> None:
        kind = "multipart/form-data; boundary=%s"
        body = '--%s\r\nContent-Disposition: form-data; name="amount"\r\n\r\n10\r\n--%s--\r\n'
        first = self.ask("/pay", "k", (body % ("a", "a")).encode(), kind % "a")
        again = self.ask("/pay", "k", (body % ("b", "b")).encode(), kind % "b")
        self.assertEqual((first[:2], again[:2], len(self.runs)), ((201, False), (201, True), 1))


def by_wsgi(app: Any, path: str, key: str, body: bytes, kind: str) -> Got:
    from wsgiref.util import setup_testing_defaults

    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST", "PATH_INFO": path, "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": kind, "wsgi.input": io.BytesIO(body),
        "HTTP_IDEMPOTENCY_KEY": key,
    }
    setup_testing_defaults(environ)
    head: list[Any] = []
    try:
        content = b"".join(app(environ, lambda status, headers, exc_info=None: head.append((status, dict(headers)))))
    except OSError:
        return 500, False, "raised"
    return int(head[-1][0].split()[0]), "Idempotency-Replayed" in head[-1][1], content.decode()


async def by_asgi(app: Any, path: str, key: str, body: bytes, kind: str) -> Got:
    sent: list[dict[str, Any]] = []
    given = False

    async def receive() -> dict[str, Any]:
        nonlocal given
        if given:
            await asyncio.get_running_loop().create_future()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), (b"idempotency-key", key.encode())],
    }
    try:
        await app(scope, receive, send)
    except OSError:
        if not sent:
            return 500, False, "raised"
    return sent[0]["status"], b"idempotency-replayed" in dict(sent[0]["headers"]), b"".join(m.get("body", b"") for m in sent[1:]).decode()


class Flask(Framework, unittest.TestCase):
    def setUp(self) -> None:
        flask = framework("flask")
        m, self.app = self.made(), flask.Flask("shop")
        self.app.logger.disabled = True

        def pay() -> Any:
            return self.pay(flask.request.get_data()), 201

        def declined() -> Any:
            flask.abort(flask.Response("no", 402))

        def busy() -> Any:
            return "later", 503, {"Retry-After": "1"}

        def nothing() -> Any:
            nothing_done()
            return "closed", 500

        def breaks() -> Any:
            self.runs.append("breaks")
            raise OSError("no ink")

        for f in (pay, declined, busy, nothing, breaks):
            self.app.post(f"/{f.__name__}")(f)
        self.app.wsgi_app = m.wsgi(self.app.wsgi_app)

    def ask(self, path: str, key: str, body: bytes = b'{"amount": 10}', kind: str = "application/json") -> Got:
        return by_wsgi(self.app, path, key, body, kind)


class Starlette(Framework, unittest.TestCase):
    def setUp(self) -> None:
        framework("starlette")
        applications, exceptions, responses, routing = (importlib.import_module(f"starlette.{m}") for m in ("applications", "exceptions", "responses", "routing"))

        async def pay(request: Any) -> Any:
            return responses.PlainTextResponse(self.pay(await request.body()), 201)

        async def declined(request: Any) -> Any:
            raise exceptions.HTTPException(402)

        def busy(request: Any) -> Any:  # in a thread
            return responses.PlainTextResponse("later", 503, {"Retry-After": "1"})

        def nothing(request: Any) -> Any:  # in a thread
            nothing_done()
            return responses.PlainTextResponse("closed", 500)

        async def breaks(request: Any) -> Any:
            self.runs.append("breaks")
            raise OSError("no ink")

        self.app = applications.Starlette(routes=[routing.Route(f"/{f.__name__}", f, methods=["POST"]) for f in (pay, declined, busy, nothing, breaks)])
        self.app.add_middleware(self.made().asgi)

    def ask(self, path: str, key: str, body: bytes = b'{"amount": 10}', kind: str = "application/json") -> Got:
        return asyncio.run(by_asgi(self.app, path, key, body, kind))


class FastAPI(Starlette):
    def setUp(self) -> None:
        fastapi = framework("fastapi")
        responses = importlib.import_module("fastapi.responses")
        self.app = fastapi.FastAPI()

        async def pay(request: Any) -> Any:
            return responses.PlainTextResponse(self.pay(await request.body()), 201)

        async def declined() -> Any:
            raise fastapi.HTTPException(402)

        def busy() -> Any:
            return responses.PlainTextResponse("later", 503, {"Retry-After": "1"})

        def nothing() -> Any:
            nothing_done()
            return responses.PlainTextResponse("closed", 500)

        async def breaks() -> Any:
            self.runs.append("breaks")
            raise OSError("no ink")

        pay.__annotations__["request"] = fastapi.Request
        for f in (pay, declined, busy, nothing, breaks):
            self.app.post(f"/{f.__name__}")(f)
        self.app.add_middleware(self.made().asgi)


class Django(Framework, unittest.TestCase):
    test: Any = None  # of the current one: views of Django are of the module

    def setUp(self) -> None:
        framework("django")
        Django.test = self
        conf, core = importlib.import_module("django.conf"), importlib.import_module("django")
        if not conf.settings.configured:
            conf.settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
            core.setup()
        importlib.import_module("logging").getLogger("django.request").disabled = True
        self.app: Any = self.made().wsgi(importlib.import_module("django.core.wsgi").get_wsgi_application())

    def ask(self, path: str, key: str, body: bytes = b'{"amount": 10}', kind: str = "application/json") -> Got:
        return by_wsgi(self.app, path, key, body, kind)


class DjangoAsync(Django):
    def setUp(self) -> None:
        super().setUp()
        self.app = self.made().asgi(importlib.import_module("django.core.asgi").get_asgi_application())

    def ask(self, path: str, key: str, body: bytes = b'{"amount": 10}', kind: str = "application/json") -> Got:
        return asyncio.run(by_asgi(self.app, path, key, body, kind))


def _view(path: str) -> Any:
    def view(request: Any) -> Any:
        http = importlib.import_module("django.http")
        if path == "pay":
            return http.HttpResponse(Django.test.pay(request.body), status=201)
        if path == "declined":
            return http.HttpResponse("no", status=402)
        if path == "busy":
            response = http.HttpResponse("later", status=503)
            response["Retry-After"] = "1"
            return response
        if path == "nothing":
            nothing_done()
            return http.HttpResponse("closed", status=500)
        Django.test.runs.append("breaks")
        raise OSError("no ink")

    return view


def __getattr__(name: str) -> Any:
    if name == "urlpatterns":
        urls = importlib.import_module("django.urls")
        return [urls.path(p, _view(p)) for p in ("pay", "declined", "busy", "nothing", "breaks")]
    raise AttributeError(name)


class Uvicorn(unittest.TestCase):
    """A server of ASGI, over HTTP."""

    PROGRAM = """
        import sys
        import fastapi, uvicorn
        from leasehold.idempotency import Middleware
        from test_once import Memory
        from virtual import VirtualClock

        runs = []
        app = fastapi.FastAPI()

        @app.post("/pay", status_code=201)
        async def pay(amount: dict):
            runs.append(amount)
            return {"runs": len(runs), **amount}

        app.add_middleware(Middleware(Memory(VirtualClock()), lambda r: "ann", name="payments").asgi)
        config = uvicorn.Config(app, port=0, log_level="info")
        uvicorn.Server(config).run()
    """

    def test_over_http(self) -> None:
        for name in ("fastapi", "uvicorn"):
            framework(name)
        p = subprocess.Popen([sys.executable, "-c", textwrap.dedent(self.PROGRAM)], stderr=subprocess.PIPE, text=True)
        assert p.stderr is not None
        self.addCleanup(p.communicate)  # once it is killed: before that no one may read, or the pipe cannot be closed
        self.addCleanup(p.kill)
        line = ""
        while "running on" not in line:
            line = p.stderr.readline()
            self.assertTrue(line, "the server has ended")
        url = line.split("running on ")[1].split()[0]

        def ask(body: bytes) -> tuple[int, Any, Any]:
            request = urllib.request.Request(url + "/pay", body, {"Content-Type": "application/json", "Idempotency-Key": "k"})
            try:
                with urllib.request.urlopen(request, timeout=LONG) as r:
                    return r.status, r.headers["Idempotency-Replayed"], json.loads(r.read())
            except urllib.error.HTTPError as err:
                with err:
                    return err.code, None, json.loads(err.read())

        self.assertEqual([ask(b'{"amount": 10}') for _ in range(2)], [(201, replayed, {"runs": 1, "amount": 10}) for replayed in (None, "true")])
        self.assertEqual(ask(b'{"amount": 11}')[0], 422)


if __name__ == "__main__":
    unittest.main()
