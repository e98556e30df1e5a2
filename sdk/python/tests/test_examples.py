"""The examples run as their texts say, against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import leasehold

from test_server import SOURCE, WithServer

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
README = Path(__file__).resolve().parent.parent / "README.md"


class Examples(WithServer):
    def run_example(self, name: str, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name), *args], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": SOURCE, "LEASEHOLD_URL": self.server.url})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_cron_job(self) -> None:
        self.assertIn("part 3 is done", self.run_example("cron_job.py", self.server.url))
        with leasehold.Client(self.server.url).locks(owner="first").hold("nightly-report"):
            self.assertIn("another machine makes the report: first", self.run_example("cron_job.py", self.server.url))

    def test_lambda_handler(self) -> None:
        out = self.run_example("lambda_handler.py").splitlines()
        self.assertEqual(len([line for line in out if line.startswith("invoice")]), 2)
        self.assertEqual(len([line for line in out if "'total': 42" in line]), 3)
        self.assertEqual(out[-1], "{'batchItemFailures': [{'itemIdentifier': 'm1'}]}")

    def test_payments(self) -> None:
        out = self.run_example("payments.py").splitlines()
        self.assertEqual(len([line for line in out if line.startswith("paid 10 ")]), 1)
        self.assertEqual(out[1:4], ['10 201 None {"paid": 10}'] + 2 * ['10 201 true {"paid": 10}'])
        self.assertTrue(out[4].startswith("20 422 None"), out)

    def test_asyncio_worker(self) -> None:
        out = self.run_example("asyncio_worker.py", self.server.url)
        self.assertEqual(out.count("is done"), 3)

    def test_transports(self) -> None:
        self.assertIn("/locks/traced/release: 200", self.run_example("transports.py", self.server.url))

    def test_readme(self) -> None:
        """Each Python block of the README runs, with its server's URL replaced."""
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
        self.assertGreater(len(blocks), 3)
        head = "steps = []\ndef deploy(**_): pass\nasync def deploy_async(**_): pass\n"
        for i, block in enumerate(blocks):
            with self.subTest(i):
                text = head + block.replace("http://127.0.0.1:8080", self.server.url)
                done = subprocess.run(
                    [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": SOURCE})
                self.assertEqual(done.returncode, 0, f"{block}\n{done.stderr}")


del WithServer  # it is no test of this file
