"""IDs, public IDs and fingerprints against the golden vectors that all clients share."""

from __future__ import annotations

import json
import random
import struct
import unittest
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from leasehold import InvalidSettingError, _input, ids, publicids
from leasehold.machineids import sign
from leasehold.once import fingerprint

VECTORS: dict[str, Any] = json.loads((Path(__file__).resolve().parents[3] / "contracts" / "vectors" / "kazahana.json").read_text())


def layout(name: str) -> ids.Layout:
    v = VECTORS["layouts"][name]
    return ids.Layout(v["customEpoch"], v["bitReserve"], v["bitTs"], v["bitId"], v["bitSeq"])


class Vectors(unittest.TestCase):
    def test_layouts(self) -> None:
        self.assertGreater(len(VECTORS["layouts"]), 2)
        for name, v in VECTORS["layouts"].items():
            with self.subTest(name):
                lay = layout(name)
                lay.validate()
                self.assertEqual(lay.max_machine_id, v["maxMachineId"])
                self.assertEqual(lay.throughput, v["throughputPerMs"])
                self.assertEqual(lay.end, datetime.fromisoformat(v["end"].replace("Z", "+00:00")))

    def test_ids(self) -> None:
        self.assertGreater(len(VECTORS["ids"]), 20)
        for v in VECTORS["ids"]:
            with self.subTest(v["layout"] + " " + v["id"]):
                number = ids.parse_id(v["id"])
                self.assertEqual(ids.format_id(number), v["id"])
                self.assertEqual(ids.id_to_bytes(number).hex(), v["bytes"])
                self.assertEqual(ids.id_from_bytes(bytes.fromhex(v["bytes"])), number)
                self.assertEqual(ids.id_to_base32(number), v["base32"])
                self.assertEqual(ids.id_from_base32(v["base32"]), number)
                lay = layout(v["layout"])
                p = lay.decode(number)
                self.assertEqual(
                    (p.unix_ms, p.fallback, p.machine_id, p.sequence, p.node), (v["unixMs"], v["fallback"], v["machineId"], v["sequence"], v["node"]))
                self.assertEqual(p.time, datetime.fromisoformat(v["time"].replace("Z", "+00:00")))
                self.assertEqual(lay.first_id(p.time), number - p.node)

    def test_malformed_ids(self) -> None:
        self.assertGreater(len(VECTORS["malformedIds"]), 10)
        for text in VECTORS["malformedIds"]:
            with self.subTest(text), self.assertRaises(ValueError):
                ids.parse_id(text)

    def test_malformed_base32(self) -> None:
        self.assertGreater(len(VECTORS["malformedBase32"]), 10)
        for text in (*VECTORS["malformedBase32"], 5, None):
            with self.subTest(text), self.assertRaises(ValueError):
                ids.id_from_base32(text)

    def test_bounds(self) -> None:
        for number in (-1, 1 << 63, True, 1.0):
            for write in (ids.format_id, ids.id_to_base32):
                with self.subTest(number), self.assertRaises(ValueError):
                    write(number)  # type: ignore[arg-type]
        for raw in (b"", b"1234567", b"123456789", b"\x80" + b"\0" * 7):
            with self.subTest(raw), self.assertRaises(ValueError):
                ids.id_from_bytes(raw)
        lay = ids.DEFAULT_LAYOUT
        start = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self.assertEqual(lay.first_id(start), 0)
        self.assertEqual(lay.first_id(lay.end - timedelta(milliseconds=1)) | 4194303, ids.MAX_ID)
        for t in (start - timedelta(milliseconds=1), lay.end):
            with self.subTest(t), self.assertRaises(ValueError):
                lay.first_id(t)
        with self.assertRaises(ValueError):
            lay.first_id(datetime(2027, 1, 1))

    def test_releases(self) -> None:
        self.assertGreater(len(VECTORS["releases"]), 2)
        for v in VECTORS["releases"]:
            self.assertEqual(sign(v["secret"], v["id"], v["timestamp"]), v["signature"])

    def test_encodings(self) -> None:
        for v in VECTORS["encodings"]:
            bits = int(v["bytes"], 16)
            self.assertEqual(publicids.to_text(bits, v["keyNumber"]), v["text"])
            self.assertEqual(publicids.from_text(v["text"]), (bits, v["keyNumber"]))

    def test_public_ids(self) -> None:
        self.assertGreater(len(VECTORS["externalIds"]), 30)
        for v in VECTORS["externalIds"]:
            with self.subTest(v["mode"] + " " + v["entity"] + " " + v["id"]):
                key = publicids.Key(v["keyNumber"], v["mode"], bytes.fromhex(v.get("secret", "")))
                if "aesKey" in v:
                    self.assertEqual(key.derive().hex(), v["aesKey"])
                c = publicids.Converter([key], entity=v["entity"], any_id=True)
                self.assertEqual(c.encode(int(v["id"])), v["externalId"])
                self.assertEqual(c.decode(v["externalId"]), int(v["id"]))

    def test_plausibility(self) -> None:
        for v in VECTORS["plausibility"]:
            with self.subTest(v["externalId"]):
                c = publicids.Converter([publicids.Key(mode="unkeyed")], layout=layout(v["layout"]), now_ms=lambda: int(v["nowUnixMs"]))
                if v["accepted"]:
                    self.assertEqual(c.decode(v["externalId"]), int(v["id"]))
                else:
                    with self.assertRaises(publicids.ImplausibleError):
                        c.decode(v["externalId"])

    def test_malformed_public_ids(self) -> None:
        for v in VECTORS["malformedExternalIds"]:
            with self.subTest(v["text"]):
                keys = [
                    publicids.Key(mode="unkeyed") if n == 0 else publicids.Key(n, secret=bytes([n]) * 16) for n in v["knownKeys"]]
                c = publicids.Converter(keys, any_id=True)
                if v["reason"] == "keyNumber":
                    with self.assertRaises(publicids.KeyNumberError) as known:
                        c.decode(v["text"])
                    self.assertEqual(known.exception.number, v["keyNumber"])
                else:
                    with self.assertRaises(publicids.MalformedError) as malformed:
                        c.decode(v["text"])
                    self.assertEqual(malformed.exception.position, v.get("position", 0))

    def test_settings(self) -> None:
        good = b"0123456789abcdef"
        cases: dict[str, Callable[[], object]] = {
            "keys": lambda: publicids.Converter([]),
            "number": lambda: publicids.Converter([publicids.Key(4, secret=good)]),
            "secret": lambda: publicids.Converter([publicids.Key(secret=good[:15])]),
            "mode": lambda: publicids.Converter([publicids.Key(mode="unkeyed", secret=good)]),
            "entity": lambda: publicids.Converter([publicids.Key(secret=good)], entity="a b"),
            "layout": lambda: publicids.Converter([publicids.Key(secret=good)], layout=ids.Layout(bit_seq=9)),
        }
        for field, make in cases.items():
            with self.subTest(field), self.assertRaises(InvalidSettingError) as err:
                make()
            self.assertEqual(err.exception.field, field)
        self.assertNotIn("0123", repr(publicids.Key(secret=good)))


class Fingerprints(unittest.TestCase):
    def test_fingerprints(self) -> None:
        vectors = json.loads((Path(__file__).resolve().parents[3] / "contracts" / "vectors" / "fingerprints.json").read_text())
        self.assertGreater(len(vectors["fingerprints"]), 20)
        self.assertGreater(len(vectors["refused"]), 3)
        for v in vectors["fingerprints"]:
            with self.subTest(v["json"]):
                self.assertEqual(_input.canonical(json.loads(v["json"]), "it"), v["canonical"])
                self.assertEqual(fingerprint(json.loads(v["json"])), v["fingerprint"])
        for text in [*vectors["refused"], "9007199254740993", "NaN", "-Infinity"]:
            with self.subTest(text), self.assertRaises(InvalidSettingError):
                fingerprint(json.loads(text))

    def test_numbers(self) -> None:
        """As ECMAScript writes them: a number that is read back is the same, and the boundaries of its forms are as the specification has them."""
        for number, text in (
            (1e21, "1e+21"), (999999999999999900000.0, "999999999999999900000"), (123456789012345680000.0, "123456789012345680000"), (1e-6, "0.000001"), (9.5e-7, "9.5e-7"), (-1.25, "-1.25"),
            (-1e-7, "-1e-7"), (100.0, "100"), (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"), (-0.0, "0"), (2 ** 60, "1152921504606847000"),
        ):
            with self.subTest(text):
                self.assertEqual(_input.canonical(number, "it"), text)
        source = random.Random(8785)
        for _ in range(5000):
            number = struct.unpack("<d", source.randbytes(8))[0]
            if number == number and abs(number) < float("inf"):
                self.assertEqual(float(_input.canonical(number, "it")), number)


if __name__ == "__main__":
    unittest.main()
