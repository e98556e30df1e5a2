"""What clients make of responses, against the vectors that all of them share."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from leasehold import Client, _outcome
from leasehold._http import Headers, Response
from leasehold.errors import LeaseholdError
from leasehold.machineids import ConfigurationError

VECTORS: dict[str, Any] = json.loads((Path(__file__).resolve().parents[3] / "contracts" / "vectors" / "errors.json").read_text())


def response(v: dict[str, Any]) -> Response:
    headers = Headers()
    headers["Content-Type"] = v.get("page", "application/problem+json")
    body: dict[str, Any] = {"title": "a page"} if "page" in v else {"code": v["code"], "title": "rejected", "status": 400}
    if "retryable" in v:
        body["retryable"] = v["retryable"]
    return Response(v["status"], "", headers, json.dumps(body).encode())


class Judged(unittest.TestCase):
    def test_responses(self) -> None:
        """Which say that the same request would be rejected again, and which are for the operator of an ID generator."""
        self.assertGreater(len(VECTORS["codes"]), 50)
        self.assertGreater(len(VECTORS["responses"]), 3 * len(VECTORS["codes"]))
        client = Client("https://locks.example.com", tries=1)
        self.addCleanup(client.close)
        for v in VECTORS["responses"]:
            with self.subTest(v), mock.patch.object(client, "once", return_value=response(v)):
                with self.assertRaises(LeaseholdError) as got:
                    client.exchange("GET", "/v1/tenants/acme/locks/deploy-prod", None, dict)
                self.assertEqual(_outcome.final(got.exception), v["final"])
                with self.assertRaises(LeaseholdError) as asked:
                    client.machine_ids().acquire("", 1, {})
                self.assertEqual(isinstance(asked.exception, ConfigurationError), v["configuration"])


if __name__ == "__main__":
    unittest.main()
