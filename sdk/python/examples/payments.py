"""A service that takes payments once, however often a request is sent: with the header Idempotency-Key, in front of any application of WSGI or ASGI.

Set LEASEHOLD_URL, and LEASEHOLD_TOKEN if the server asks for it. `python3 payments.py` serves payments, and sends one request three times and another one under the same key.

In Flask it is `app.wsgi_app = payments.wsgi(app.wsgi_app)`, in Django `application = payments.wsgi(get_wsgi_application())`, in FastAPI and Starlette
`app.add_middleware(payments.asgi)`.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import leasehold
from leasehold.idempotency import Middleware, Request, nothing_done
from leasehold.once import current

client = leasehold.Client(os.environ.get("LEASEHOLD_URL", "http://127.0.0.1:8080"), token=os.environ.get("LEASEHOLD_TOKEN") or None)


def account(request: Request) -> str:
    """Whose request it is: what authentication found. Keys of two accounts do not meet."""
    return request.header("X-Account")


payments = Middleware(client.runs("shop"), account, name="payments")


def pay(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    amount = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))["amount"]
    if amount > 1000:
        nothing_done()  # the bank was asked for nothing: the response is not stored
        start_response("422 Unprocessable Entity", [])
        return []
    print(f"paid {amount} under token {current().token}", flush=True)  # pass the token on to what you write to
    start_response("201 Created", [("Content-Type", "application/json")])
    return [json.dumps({"paid": amount}).encode()]


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    with make_server("127.0.0.1", 0, payments.wsgi(pay), handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for amount in (10, 10, 10, 20):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request("POST", "/payments", json.dumps({"amount": amount}), {"Idempotency-Key": f"order-{os.getpid()}", "X-Account": "ann"})
            response = connection.getresponse()
            print(amount, response.status, response.headers.get("Idempotency-Replayed"), response.read().decode())
            connection.close()
        server.shutdown()
    payments.close()  # what is not stored yet
