"""In processes whose threads are greenlets, of gevent and of eventlet: a lock is no one's way. They are of Debian's packages, and of /usr/bin/python3."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from test_end import SOURCE, Judge
from virtual import STUCK

PYTHONS = [p for p in dict.fromkeys((sys.executable, "/usr/bin/python3")) if Path(p).exists()]

PROGRAM = """
    {patch}
    import asyncio, sys, threading, time

    import leasehold

    url = sys.argv[1]
    locks = leasehold.Client(url).locks(owner="me", ttl=6)
    turns = []

    def work(n):
        with locks.hold(f"k{{n}}") as lock:
            for _ in range(28):
                turns.append(n)
                time.sleep(0.1)
                lock.check()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    time.sleep(0.5)

    with locks.hold("mine") as lock:
        {between}

        async def main():
            await asyncio.sleep(2.2)  # a renewal is due meanwhile
            return "asyncio"

        assert asyncio.run(main()) == "asyncio"
        lock.check()
    kept = locks.hold("kept").acquire()
    kept.release()
    for t in threads:
        t.join()
    assert sorted(turns) == sorted(list(range(8)) * 28), turns
    assert turns[:28] != [0] * 28, turns  # they took turns
    assert not locks._held
    import leasehold._steps as s
    assert s._engine._threads <= 8 * s.WORKERS, s._engine._threads
    print("done", asyncio._get_running_loop())
"""

DJANGO = """
        import django
        from django.conf import settings
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, INSTALLED_APPS=["django.contrib.contenttypes"])
        django.setup()
        from django.core.management import call_command
        from django.contrib.contenttypes.models import ContentType
        call_command("migrate", verbosity=0)
        for n in range(10):
            ContentType.objects.create(app_label="a", model=f"m{n}")
            time.sleep(0.1)
        assert ContentType.objects.filter(app_label="a").count() == 10
"""


def has(python: str, *modules: str) -> bool:
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True).returncode == 0


class Greenlets(unittest.TestCase):
    def run_it(self, patch: str, between: str, *modules: str) -> None:
        python = next((p for p in PYTHONS if has(p, *modules)), "")
        if not python:
            self.skipTest(f"no Python has {' and '.join(modules)}")
        judge = Judge()
        self.addCleanup(judge.close)
        program = textwrap.dedent(PROGRAM).format(patch=patch, between=textwrap.indent(textwrap.dedent(between or "pass"), "    ").strip())
        got = subprocess.run(
            [python, "-W", "ignore::DeprecationWarning", "-c", program, judge.url], capture_output=True, text=True, timeout=2 * STUCK,
            env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((got.stdout, got.stderr), ("done None\n", ""))
        for key in [f"k{n}" for n in range(8)] + ["mine"]:
            self.assertGreater(len([1 for path, _ in judge.bodies if path.endswith(f"/{key}/renew")]), 0, key)
            self.assertEqual(len([1 for path, _ in judge.bodies if path.endswith(f"/{key}/release")]), 1, key)

    def test_gevent_with_the_orm_of_django(self) -> None:
        self.run_it("from gevent import monkey; monkey.patch_all()", DJANGO, "gevent", "django")

    def test_eventlet(self) -> None:
        self.run_it("import eventlet; eventlet.monkey_patch()", "", "eventlet")

    def test_threads(self) -> None:
        self.run_it("", "", "sqlite3")


if __name__ == "__main__":
    unittest.main()
