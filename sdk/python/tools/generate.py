#!/usr/bin/env python3
"""Make src/leasehold/codes.py and src/leasehold/types.py from the contract. With --check, only compare."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
CONTRACTS = HERE.parent.parent / "contracts"
SOURCE = HERE / "src" / "leasehold"

# The schemas that this client sends and receives; what they refer to follows.
SCHEMAS = [
    "AcquireRequest", "RenewRequest", "ReleaseRequest", "ForceReleaseRequest", "Lease", "EndedLease", "ForceReleased", "Lock", "LockPage",
    "LockSetAcquireRequest", "LockSetRenewRequest", "LockSetReleaseRequest", "LockSet", "LockSetReleased",
    "RunBeginRequest", "RunGranted", "RunSkipped", "RunRefreshRequest", "RunLock", "RunReleaseRequest", "RunReleased", "RunFinishRequest", "RunFinished", "Run",
    "AnalysisLockRequest", "AnalysisGranted", "AnalysisSkipped", "AnalysisRefreshRequest", "AnalysisLock", "AnalysisReleaseRequest", "AnalysisReleased",
    "AnalysisFinishRequest", "AnalysisFinished",
    "MachineIDLeaseRequest", "MachineIDLeases", "MachineIDReleaseRequest",
    "FenceRequest", "FencePassed",
]


def class_name(code: str) -> str:
    return "".join(part.capitalize() for part in code.split("_")) + "Error"


def codes(vectors: dict[str, Any]) -> str:
    table = {c["code"]: (c["status"], c["retryable"], c["title"]) for c in vectors["codes"]}
    names = [class_name(c) for c in table]
    out = [
        '"""One class of error for each code of the API. Generated from the contract by tools/generate.py."""', "", "from __future__ import annotations", "",
        "from typing import Any", "", "from .errors import ApiError", "", "__all__ = [", *(f'    "{n}",' for n in sorted(names)), '    "of",', "]", "",
    ]
    for code, (status, retryable, title) in table.items():
        out += [
            "", f"class {class_name(code)}(ApiError):", f'    """{status}{", retryable" if retryable else ""}: {title}."""', "",
            f'    code = "{code}"', f'    default_title = "{title}"', f"    default_status = {status}", f"    default_retryable = {retryable}", "",
        ]
    out += ["", "CLASSES: dict[str, type[ApiError]] = {", *(f'    "{c}": {class_name(c)},' for c in table), "}", '"""The class of each code."""', "", ""]
    out += [
        "def of(code: str, problem: dict[str, Any], status: int) -> ApiError:",
        '    """The error of a problem document. A code that is newer than this client is an ApiError with that code."""',
        "    made = CLASSES.get(code)",
        "    return made(problem=problem, status=status) if made else ApiError(problem=problem, code=code, status=status)",
        "",
    ]
    return "\n".join(out)


class Types:
    def __init__(self, api: dict[str, Any]) -> None:
        self.schemas = api["components"]["schemas"]
        self.order: list[str] = []
        self.text: dict[str, str] = {}

    def of(self, s: dict[str, Any]) -> str:
        if "$ref" in s:
            name = str(s["$ref"]).rsplit("/", 1)[1]
            target = self.schemas[name]
            if target.get("type") == "object" and "properties" in target:
                self.add(name)
                return name  # not quoted: Python 3.10 does not resolve a name in quotes within list[...]
            return self.of(target)
        if "allOf" in s:
            return self.of(s["allOf"][0])
        if "const" in s:
            return f"Literal[{s['const']!r}]"
        if "enum" in s:
            return "Literal[" + ", ".join(json.dumps(v) for v in s["enum"]) + "]"
        kind = s.get("type")
        if kind == "array":
            return f"list[{self.of(s['items'])}]"
        if kind == "object":
            extra = s.get("additionalProperties")
            return f"dict[str, {self.of(extra) if isinstance(extra, dict) else 'Any'}]"
        return {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}.get(str(kind), "Any")

    def describe(self, s: dict[str, Any]) -> str:
        if "description" in s:
            return str(s["description"])
        for inner in s.get("allOf", []) + ([self.schemas[s["$ref"].rsplit("/", 1)[1]]] if "$ref" in s else []):
            found = self.describe(inner)
            if found:
                return found
        return ""

    def add(self, name: str) -> None:
        if name in self.text:
            return
        self.text[name] = ""
        s = self.schemas[name]
        required, fields = set(s.get("required", [])), s.get("properties", {})
        split = bool(required) and set(fields) != required
        out = []

        def body(names: list[str], doc: str) -> None:
            out.extend(textwrap.wrap(f'"""{doc}"""', 140, initial_indent="    ", subsequent_indent="    ") + [""])
            for field in names:
                out.append(f"    {field}: {self.of(fields[field])}")
                text = " ".join(self.describe(fields[field]).split()).replace("\\", "\\\\").replace('"', "'")
                if text:
                    out.extend(textwrap.wrap(f'"""{text}"""', 140, initial_indent="    ", subsequent_indent="    "))

        doc = " ".join(s.get("description", f"See the contract: {name}.").split()).replace('"', "'")
        if split:
            out.append(f"class _{name}(TypedDict):")
            body([f for f in fields if f in required], "What it always has.")
            out += ["", "", f"class {name}(_{name}, total=False):"]
            body([f for f in fields if f not in required], doc)
        else:
            out.append(f"class {name}(TypedDict{'' if required else ', total=False'}):")
            body(list(fields), doc)
        self.text[name] = "\n".join(out)
        self.order.append(name)


def types(api: dict[str, Any]) -> str:
    t = Types(api)
    for name in SCHEMAS:
        t.add(name)
    head = [
        '"""The bodies of requests and responses. Generated from the contract by tools/generate.py."""', "", "from __future__ import annotations", "",
        "from typing import Any, Literal, TypedDict", "", "__all__ = [", *(f'    "{n}",' for n in sorted(t.order)), "]", "", "",
    ]
    return "\n".join(head) + "\n\n\n".join(t.text[n] for n in t.order) + "\n"


def main() -> int:
    api = json.loads((CONTRACTS / "openapi.json").read_text())
    errors = json.loads((CONTRACTS / "vectors" / "errors.json").read_text())
    stale = False
    for path, text in {SOURCE / "codes.py": codes(errors), SOURCE / "types.py": types(api)}.items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(HERE)} is out of date: python3 tools/generate.py", file=sys.stderr)
            stale = True
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
