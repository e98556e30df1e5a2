"""What `import leasehold` loads: a program that uses a lock for a moment does not pay for what it does not use."""

from __future__ import annotations

import subprocess
import sys
import unittest

from test_end import SOURCE

HEAVY = ("asyncio", "ssl", "http.client", "email", "hashlib", "secrets", "urllib.request", "concurrent.futures", "decimal", "tempfile")


class Imports(unittest.TestCase):
    def modules(self, do: str) -> set[str]:
        code = f"import sys; sys.path.insert(0, {SOURCE!r}); before = set(sys.modules); {do}; print(*sorted(set(sys.modules) - before))"
        return set(subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True).stdout.split())

    def test_import(self) -> None:
        loaded = self.modules("import leasehold")
        self.assertEqual(loaded & set(HEAVY), set())
        self.assertLessEqual(len(loaded), 110)

    def test_a_client_and_its_locks(self) -> None:
        loaded = self.modules("import leasehold; leasehold.Client('http://127.0.0.1:1').locks().hold('k')")
        self.assertEqual(loaded & set(HEAVY), set())


if __name__ == "__main__":
    unittest.main()
