#!/usr/bin/env python3
"""Make docs/api.md from the docstrings of the package. With --check, only compare."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SOURCE = HERE / "src" / "leasehold"
TARGET = HERE / "docs" / "api.md"
MODULES = ["locks", "election", "once", "idempotency", "aws", "client", "errors", "ids", "machineids", "publicids"]


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    args = ast.unparse(node.args)
    for first in ("self, ", "self"):
        if args.startswith(first):
            args = args[len(first):]
            break
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{node.name}({args}){returns}"


def text(node: ast.AST) -> str:
    doc = ast.get_docstring(node) or ""  # type: ignore[arg-type]
    out: list[str] = []
    code = False
    for line in doc.replace("``", "`").splitlines():
        indented = line.startswith("    ")
        if indented and not code and not (out and out[-1] and not out[-1].startswith("    ")):
            code = True
        elif line and not indented:
            code = False
        out.append(line if code or not indented else "  " + line.strip())
    return "\n".join(out)


def settings(doc: str) -> str:
    """The names of settings, which a docstring has as a line followed by an indented one, become a list."""
    lines, out = doc.splitlines(), []
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if line and not line.startswith(" ") and following.startswith("  ") and not following.startswith("    ") and not line.endswith((".", ":")):
            out.append(f"- **{line}**")
        else:
            out.append(line)
    return "\n".join(out)


def roles(doc: str) -> str:
    for role in (":class:", ":meth:", ":func:", ":mod:", ":attr:"):
        doc = doc.replace(role, "")
    return doc.replace("`~leasehold.codes.", "`").replace("`leasehold.", "`")


def describe(node: ast.AST) -> str:
    return roles(settings(text(node)))


def members(node: ast.ClassDef) -> list[str]:
    out = []
    for i, child in enumerate(node.body):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and not child.name.startswith("_") and child.name != "after_fork" and ast.get_docstring(child):
            kind = any(isinstance(d, ast.Name) and d.id == "property" for d in child.decorator_list)
            name = f"{child.name}: {ast.unparse(child.returns)}" if kind and child.returns else signature(child)
            out.append(f"#### `{name}`\n\n{describe(child)}\n")
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            following = node.body[i + 1] if i + 1 < len(node.body) else None
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant) and isinstance(following.value.value, str):
                out.append(f"- `{ast.unparse(child.target)}`: {roles(' '.join(following.value.value.split()))}")
            elif not child.target.id.startswith("_"):
                out.append(f"- `{ast.unparse(child.target)}: {ast.unparse(child.annotation)}`")
    return out


def module(name: str) -> str:
    tree = ast.parse((SOURCE / f"{name}.py").read_text())
    public: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            public = ast.literal_eval(node.value)
    out = [f"## leasehold.{name}\n\n{describe(tree)}\n"]
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in public:
            init = next((c for c in node.body if isinstance(c, ast.FunctionDef) and c.name == "__init__"), None)
            head = signature(init).replace("__init__", node.name, 1).replace(" -> None", "") if init and name not in ("errors",) else node.name
            bases = [b.id for b in node.bases if isinstance(b, ast.Name)]
            if node.name == "Lock" or node.name == "LockSet":
                head = node.name
            out.append(f"### `{head}`\n\n{describe(node)}\n")
            out += members(node)
            for base in bases:
                if base.startswith("_") and base in classes:
                    out += [m for m in members(classes[base]) if m not in out]
            out.append("")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in public:
            out.append(f"### `{signature(node)}`\n\n{describe(node)}\n")
    return "\n".join(out)


def codes() -> str:
    tree = ast.parse((SOURCE / "codes.py").read_text())
    rows = [f"| `{n.name}` | {ast.get_docstring(n)} |" for n in tree.body if isinstance(n, ast.ClassDef)]
    return "## leasehold.codes\n\nOne class of error for each code; all are an ApiError.\n\n| Class | Status and meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def main() -> int:
    page = "# API of the Python client\n\nGenerated from the docstrings: `python3 tools/docs.py`. [README.md](../README.md) is the introduction.\n\n"
    page += "\n".join(module(m) for m in MODULES) + "\n" + codes()
    page = "\n".join(line.rstrip() for line in page.splitlines()) + "\n"
    while "\n\n\n" in page:
        page = page.replace("\n\n\n", "\n\n")
    if "--check" not in sys.argv:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(page)
    elif not TARGET.exists() or TARGET.read_text() != page:
        print("docs/api.md is out of date: python3 tools/docs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
