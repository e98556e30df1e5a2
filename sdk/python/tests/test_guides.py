"""The code of the guides runs: the unique row that is written with the effect, on SQLite, and on PostgreSQL where LEASEHOLD_TEST_POSTGRESQL says the address of one (.ci/databases/run)."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sqlite3
import threading
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "idempotency.md"


def block(language: str) -> str:
    """The one block of a language on the page that is about the table of keys."""
    found = [text for text in re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.S) if re.search(r"(INTO|TABLE) made", text)]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} blocks of {language}")
    return str(found[0])


class Lite:
    """A connection of sqlite3 with the methods of psycopg."""

    def __init__(self, file: str = ":memory:") -> None:
        self.db = sqlite3.connect(file, isolation_level=None, timeout=60, check_same_thread=False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> Any:
        return self.db.execute(statement.replace("%s", "?"), values)


class UniqueRow(unittest.TestCase):
    def pay(self, connection: Any, key: str, scope: str = "ann", amount: int = 10) -> None:
        exec(compile(block("python"), str(PAGE), "exec"), {"connection": connection, "scope": scope, "key": key, "account": "ann", "amount": amount})

    def check(self, connection: Any, another: Callable[[], Any]) -> None:
        def balance() -> int:
            return int(connection.execute("SELECT balance FROM accounts WHERE id = 'ann'").fetchone()[0])

        with connection.transaction():
            connection.execute("DROP TABLE IF EXISTS made")
            connection.execute("DROP TABLE IF EXISTS accounts")
            connection.execute(block("sql"))
            connection.execute("CREATE TABLE accounts (id VARCHAR(255) PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))")
            connection.execute("INSERT INTO accounts VALUES ('ann', 100)")
        for _ in range(3):
            self.pay(connection, "k1")
        self.assertEqual(balance(), 90)
        self.pay(connection, "k2")
        self.pay(connection, "k1", scope="bob")
        self.assertEqual(balance(), 70)
        with self.assertRaises(Exception):  # an effect that fails takes its row with it
            self.pay(connection, "k3", amount=1000)
        self.pay(connection, "k3")
        self.assertEqual(balance(), 60)

        errors: list[BaseException] = []

        def at_once() -> None:
            try:
                self.pay(another(), "k4")
            except BaseException as err:
                errors.append(err)

        threads = [threading.Thread(target=at_once) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((errors, balance()), ([], 50))

    def test_sqlite(self) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "shop"))
            made = [Lite(file)]

            def another() -> Lite:
                made.append(Lite(file))
                return made[-1]

            try:
                self.check(made[0], another)
            finally:
                for connection in made:
                    connection.db.close()

    def test_postgresql(self) -> None:
        address = os.environ.get("LEASEHOLD_TEST_POSTGRESQL")
        if not address:
            self.skipTest("LEASEHOLD_TEST_POSTGRESQL is not set: .ci/databases/run FOLDER starts PostgreSQL")
        psycopg = importlib.import_module("psycopg")
        made: list[Any] = []

        def another() -> Any:
            made.append(psycopg.connect(address, autocommit=True))
            return made[-1]

        try:
            self.check(another(), another)
        finally:
            for connection in made:
                connection.close()


if __name__ == "__main__":
    unittest.main()
