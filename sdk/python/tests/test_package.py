"""What is published: a source archive and a wheel, which are built and installed without a network."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

import leasehold

ROOT = Path(__file__).resolve().parent.parent
BUILDS = "from setuptools import build_meta as b; b.build_sdist(OUT); b.build_wheel(OUT)"
CAN = "import setuptools.build_meta, setuptools.dist as d; assert d.Distribution().get_command_class('bdist_wheel')"


def builder() -> str:
    """A Python that can build wheels; empty if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", CAN], capture_output=True).returncode == 0:
                return python
        except OSError:
            pass
    return ""


class Package(unittest.TestCase):
    folder: Path
    wheel: Path

    @classmethod
    def setUpClass(cls) -> None:
        python = builder()
        if not python:
            raise unittest.SkipTest("no setuptools that builds wheels: on Debian, python3-setuptools and python3-wheel")
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.folder = Path(made.name)
        source = cls.folder / "source"
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".mypy_cache"))
        done = subprocess.run([python, "-c", BUILDS.replace("OUT", repr(str(cls.folder)))], cwd=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        [cls.wheel] = cls.folder.glob("*.whl")

    def test_the_wheel(self) -> None:
        self.assertEqual(self.wheel.name, f"leasehold-{leasehold.__version__}-py3-none-any.whl")
        with zipfile.ZipFile(self.wheel) as z:
            names = set(z.namelist())
            info = f"leasehold-{leasehold.__version__}.dist-info/"
            said = email.message_from_bytes(z.read(info + "METADATA"))
        want = {f"leasehold/{p.name}" for p in (ROOT / "src" / "leasehold").iterdir() if p.suffix == ".py" or p.name == "py.typed"}
        self.assertEqual({n for n in names if not n.startswith(info)}, want)
        self.assertTrue({info + "LICENSE", info + "licenses/LICENSE"} & names)
        self.assertEqual((said["Name"], said["Version"], said["Requires-Python"]), ("leasehold", leasehold.__version__, ">=3.10"))
        self.assertEqual(said.get_all("Requires-Dist"), None)
        self.assertIn("Typing :: Typed", said.get_all("Classifier") or [])
        self.assertIn("Framework :: AsyncIO", said.get_all("Classifier") or [])
        self.assertTrue([u for u in said.get_all("Project-URL") or [] if u.startswith("Changelog, ")])
        self.assertEqual(said["Description-Content-Type"], "text/markdown")

    def test_the_source_archive(self) -> None:
        with tarfile.open(self.folder / f"leasehold-{leasehold.__version__}.tar.gz") as t:
            names = {n.partition("/")[2] for n in t.getnames()}
        self.assertLessEqual({"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", "src/leasehold/py.typed", "src/leasehold/_steps.py"}, names)

    def test_it_is_installed_in_an_environment_of_its_own(self) -> None:
        where = self.folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True, capture_output=True)
        python = where / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(self.wheel)]
        if subprocess.run(install, capture_output=True).returncode != 0:  # no pip, or an old one: a wheel is an archive of what is installed
            out = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True, text=True)
            with zipfile.ZipFile(self.wheel) as z:
                z.extractall(out.stdout.strip())
        says = "import leasehold, importlib.metadata as m, importlib.resources as r; print(leasehold.__file__); " \
            "print(m.version('leasehold'), leasehold.__version__, (r.files('leasehold') / 'py.typed').is_file())"
        got = subprocess.run([python, "-I", "-c", says], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertTrue(Path(got[0]).is_relative_to(where), got)
        self.assertEqual(got[1], f"{leasehold.__version__} {leasehold.__version__} True")


if __name__ == "__main__":
    unittest.main()
