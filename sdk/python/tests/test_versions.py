"""The oldest Python that the package promises, whichever one runs the tests. What is missing in its standard library is found by mypy, whose python_version is that one."""

from __future__ import annotations

import ast
import re
import typing
import unittest
from pathlib import Path

from leasehold import once, types

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 10)


class Versions(unittest.TestCase):
    def test_the_package_says_which(self) -> None:
        text = (ROOT / "pyproject.toml").read_text()
        version = ".".join(map(str, OLDEST))
        self.assertIn(f'requires-python = ">={version}"', text)
        self.assertIn(f'python_version = "{version}"', text)
        self.assertIn(f'"Programming Language :: Python :: {version}"', text)
        found = re.search(r'^version = "(.*)"$', text, re.M)
        assert found is not None
        import leasehold

        self.assertEqual(leasehold.__version__, found[1])

    def test_syntax(self) -> None:
        files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/*.py")]
        self.assertGreater(len(files), 10)
        for path in files:
            with self.subTest(path.name):
                tree = ast.parse(path.read_text(), feature_version=OLDEST)
                for node in ast.walk(tree):  # the parser accepts what it does not reject by version
                    self.assertNotIsInstance(node, getattr(ast, "TryStar", ()))
                    self.assertFalse(getattr(node, "type_params", None))

    def test_types_resolve(self) -> None:
        """Python 3.10 leaves a name in quotes within list[...] a text, so that responses with such a member could not be judged."""
        for name in types.__all__:
            with self.subTest(name):
                kind = getattr(types, name)
                self.assertFalse([n for n, t in kind.__annotations__.items() if re.search("[\"']", getattr(t, "__forward_arg__", str(t)).split("Literal[")[0])])
                typing.get_type_hints(kind)
        typing.get_type_hints(once._AnyGrant)


if __name__ == "__main__":
    unittest.main()
