"""Random requests from the OpenAPI document. A generator with a seed makes the same requests again.

A request starts from one that the service accepts, or from one that the schema allows, and then goes wrong in one or a
few places: types, sizes, encodings, headers, ids, keys, methods. Some are broken as HTTP.
"""

import gzip
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from urllib.parse import quote, quote_from_bytes

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "QUERY", "get", "X" * 40)
# None of them looks like something of the service's inside, so that a reply which repeats one is no leak.
TEXTS = (
    "", " ", "0", "-1", "null", "true", "NaN", "a" * 101, "b" * 5_000, "ä", "日本語", "\u202eabc", "e\u0301" * 30,
    "\U0001f469\u200d\U0001f467", "\x00", "a\x00b", "\n", "\ufeff", "\ud800", "'", '"', "';--", "' or '1'='1",
    "{}", "[]", "${7*7}", "{{7*7}}", "%s%s%n", "..%2f", "/", "\\", "<b>x</b>", "javascript:x", "$email", "lk_",
    "$RCAnonymousID:0", "2027-01-15", "2026-02-30", "P1D", "P0D", "PT1H", "1e400", "EUR", "eur", "data:,",
    "https://a.example/x", "http://[::1]/",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 100, 101, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e-9, 1e308,
    0.1 + 0.2, 1_800_000_000_000, 253_402_300_800_000, 8.64e15,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": ""}, {"id": {"id": []}}, *TEXTS[:8], *NUMBERS)
RAW_BODIES = (
    b"", b"{", b"}", b"nul", b"NaN", b"[" * 3_000, b'{"a":' * 2_000, b"\xff\xfe", b"\xef\xbb\xbf{}", b"\x00" * 64,
    b'"\\ud800"', b'{"id":"a","id":"b"}', b"1" * 5_000, b"-", b"1e99999", b"a=b&c=d", b"<x/>", b"{}{}",
    '{"ä":"'.encode("utf-16"), b"\x1f\x8b\x08",
)  # fmt: skip
TYPES = (
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=utf-16", "x",
)  # fmt: skip
HEADERS = (
    ("Idempotency-Key", ("k1", "k2", "", "a" * 300, "\x7f", "ä")),
    ("Accept", ("text/csv", "image/png", "*/*;q=0", "x" * 2_000)),
    ("Accept-Encoding", ("gzip", "br", "identity;q=0", "zzz")),
    ("Accept-Language", ("de", "xx-", "*", "a" * 500)),
    ("X-Forwarded-For", ("1.2.3.4", "x", "::1, " * 50)),
    ("X-Request-Id", ("mine", "a" * 1_000, "b c")),
    ("Latchkey-Shape", ("vendor", "x")),
    ("Range", ("bytes=0-1",)),
    ("If-None-Match", ('"x"', "*")),
    ("Origin", ("https://evil.example", "null")),
    ("Cookie", ("session=x", "a=" * 300)),
    ("X-Platform", ("ios", "ä")),
    ("Content-Encoding", ("gzip", "br", "identity")),
)


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    # What it documents.
    about: Mapping[str, Any]
    # A body that it accepts.
    body: Any


@dataclass(frozen=True)
class Sent:
    data: bytes
    method: str
    # Whose replies to expect; None: no operation has this method and path, or it is no HTTP.
    operation: Operation | None
    # Broken as HTTP: the reply may be anything but a fault of the service, and may be missing.
    raw: bool = False


class Requests:
    def __init__(
        self, seed: str, client: int, described: Mapping[str, Any], bodies: Mapping[str, Any],
        names: Mapping[str, str], keys: tuple[str, str], host: str,
    ) -> None:  # fmt: skip
        self.chances = random.Random(f"{seed} {client}")
        self._schemas = described["components"]["schemas"]
        self._names, self._keys, self._host = names, keys, host
        self._seen: list[str] = list(names.values())
        self._operations = [
            Operation(method.upper(), path, about, bodies.get(f"{method.upper()} {path.removeprefix(V2)}"))
            for path, item in described["paths"].items()
            for method, about in item.items()
            if path != "/metrics"
        ]
        self._weights = list(accumulate(map(_weight, self._operations)))

    def saw(self, ids: list[str]) -> None:
        """Ids in a reply: later requests name them."""
        self._seen = [*self._seen, *ids[:3]][-200:]

    def next(self) -> Sent:
        chances = self.chances
        [operation] = chances.choices(self._operations, cum_weights=self._weights)
        method, path = operation.method, self._path(operation)
        named: Operation | None = operation
        if chances.random() < 0.02:
            method, named = chances.choice(METHODS), None
        headers = {"Host": self._host, "Authorization": self._authorization(operation)}
        if chances.random() < 0.15:
            name, values = chances.choice(HEADERS)
            headers[name] = chances.choice(values)
        body = self._body(operation) if "requestBody" in operation.about or chances.random() < 0.02 else b""
        if body or method not in {"GET", "HEAD"}:
            headers["Content-Type"] = chances.choice(TYPES) if chances.random() < 0.03 else "application/json"
            if headers.get("Content-Encoding") == "gzip" and chances.random() < 0.5:
                body = gzip.compress(body)
            headers["Content-Length"] = str(len(body))
        data = b"%s %s HTTP/1.1\r\n%s\r\n%s" % (
            method.encode(),
            path,
            b"".join(b"%s: %s\r\n" % (name.encode(), value.encode()) for name, value in headers.items() if value),
            body,
        )
        if chances.random() < 0.01:
            return Sent(self._broken(data), method, None, raw=True)
        # A slash or a dot in a name makes another path; what is no HTTP by its method or its headers is another matter.
        plain = named if re.fullmatch(_template(operation.path), path.partition(b"?")[0]) else None
        return Sent(data, method, plain, raw=not (method.isupper() and method.isalpha() and _is_clean(headers)))

    def _path(self, operation: Operation) -> bytes:
        chances = self.chances

        def value(match: re.Match[str]) -> str:
            name = match[1]
            roll = chances.random()
            if roll < 0.75 or (name == "project_id" and roll < 0.98):
                return quote(self._names.get(name) or chances.choice(self._seen), safe="")
            return _quoted(chances, chances.choice(self._seen) if roll < 0.85 else self._text())

        path = re.sub(r"\{(\w+)\}", value, operation.path)
        asked = [
            f"{one['name']}={_quoted(chances, self._query_value(one['schema']))}"
            for one in operation.about.get("parameters", ())
            if one["in"] == "query" and chances.random() < (0.9 if one.get("required") else 0.2)
        ]
        if chances.random() < 0.03:
            asked.append(chances.choice(("limit=2", "x=1", "&&", "=", "a[b]=c", "limit=1&limit=2", "%", "%ff=%zz")))
        return (path + ("?" + "&".join(asked) if asked else "")).encode()

    def _query_value(self, schema: Mapping[str, Any]) -> str:
        value = self._mutated(self._made(schema)) if self.chances.random() < 0.3 else self._made(schema)
        return value if isinstance(value, str) else json.dumps(value)

    def _authorization(self, operation: Operation) -> str:
        roll, (secret, public) = self.chances.random(), self._keys
        if roll < 0.9:
            is_public = operation.path in PUBLIC or (operation.path.startswith("/rcbilling") and roll < 0.8)
            return f"Bearer {public if is_public else secret}"
        return self.chances.choice(
            (
                f"Bearer {public}",
                f"Bearer {secret}",
                f"Bearer {secret[:-1]}",
                secret,
                "Bearer",
                "Basic eDp5",
                "",
                "Bearer " + "a" * 3_000,
            )
        )

    def _body(self, operation: Operation) -> bytes:
        chances = self.chances
        roll = chances.random()
        if roll < 0.04:
            return chances.choice(RAW_BODIES)
        content = operation.about.get("requestBody", {}).get("content", {}).get("application/json")
        schema = content["schema"] if content else {}
        value = operation.body if operation.body is not None and roll < 0.6 else self._made(schema)
        for _ in range(chances.choice((0, 0, 1, 1, 1, 2, 3))):
            value = self._mutated(value)
        data = json.dumps(value, ensure_ascii=chances.random() < 0.5).encode("utf-8", "surrogatepass")
        roll = chances.random()
        if roll < 0.02:
            return data[: chances.randrange(len(data) + 1)]
        if roll < 0.03:
            return data.decode("utf-8", "replace").encode("utf-16")
        if roll < 0.035:
            return data + b" " * chances.choice((1, 100_000))
        return data

    def _text(self) -> str:
        return self.chances.choice(TEXTS)

    def _made(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value that the schema allows, or nearly so."""
        chances = self.chances
        if "$ref" in schema:
            return self._made(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._made(chances.choice(schema[several]), depth)
        if "allOf" in schema:
            return self._made(schema["allOf"][0], depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return chances.choice(schema["enum"])
        if chances.random() < 0.3 and (
            examples := schema.get("examples") or [schema[k] for k in ("example", "default") if k in schema]
        ):
            return chances.choice(examples)
        kind = schema.get("type")
        match chances.choice(kind) if isinstance(kind, list) else kind:
            case "object":
                needed = schema.get("required", ())
                fields = schema.get("properties", {})
                made = {
                    name: self._made(one, depth + 1)
                    for name, one in fields.items()
                    if name in needed or (depth < 5 and chances.random() < 0.4)
                }
                if isinstance(more := schema.get("additionalProperties"), dict) and depth < 5:
                    made |= {self._text() or "x": self._made(more, depth + 1) for _ in range(chances.randrange(3))}
                return made
            case "array":
                return [self._made(schema.get("items", {}), depth + 1) for _ in range(chances.choice((0, 1, 1, 2, 3)))]
            case "string":
                roll = chances.random()
                if roll < 0.5:
                    return chances.choice(self._seen)
                return (
                    self._text()
                    if roll < 0.8
                    else "".join(chances.choices("abcdefghij_.:$", k=chances.randrange(1, 40)))
                )
            case "integer" | "number":
                least, most = schema.get("minimum", 0), schema.get("maximum", 2**53)
                number = chances.choice((least, most, chances.randint(0, 100), 1_800_000_000_000))
                return int(number) if kind == "integer" else number
            case "boolean":
                return chances.random() < 0.5
            case "null":
                return None
        return chances.choice(OTHERS)

    def _mutated(self, value: Any) -> Any:
        """With one thing changed, somewhere in it."""
        chances = self.chances
        if isinstance(value, dict) and value and chances.random() < 0.85:
            name = chances.choice(list(value))
            match chances.randrange(8):
                case 0:
                    return {other: one for other, one in value.items() if other != name}
                case 1:
                    return {**value, chances.choice((name.upper(), f"{name}_", self._text())): chances.choice(OTHERS)}
                case 2:
                    return {**value, name: chances.choice(OTHERS)}
                case _:
                    return {**value, name: self._mutated(value[name])}
        if isinstance(value, list) and value and chances.random() < 0.8:
            at = chances.randrange(len(value))
            match chances.randrange(4):
                case 0:
                    return value * chances.choice((2, 60))
                case 1:
                    return value[:at] + value[at + 1 :]
                case _:
                    return [*value[:at], self._mutated(value[at]), *value[at + 1 :]]
        if isinstance(value, str) and chances.random() < 0.4:
            at = chances.randrange(len(value) + 1)
            return value[:at] + self._text()[:200] + value[at + chances.randrange(3) :]
        if isinstance(value, int | float) and chances.random() < 0.5:
            return chances.choice(
                (-value, value + 1, value * 1000, str(value), float(value) if abs(value) < 1e300 else 0)
            )
        return chances.choice(OTHERS)

    def _broken(self, data: bytes) -> bytes:
        chances = self.chances
        at = chances.randrange(len(data))
        match chances.randrange(7):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + bytes(chances.randrange(256) for _ in range(chances.randrange(1, 40))) + data[at:]
            case 2:
                return chances.randbytes(chances.randrange(1, 400))
            case 3:
                return data.replace(b"HTTP/1.1", chances.choice((b"HTTP/9.9", b"HTTP/1.0", b"", b"HTTP/2.0")), 1)
            case 4:
                lengths = (
                    b"Content-Length: -1",
                    b"Content-Length: 5\r\nContent-Length: 6",
                    b"Transfer-Encoding: x, chunked",
                    b"Content-Length: 99999999999",
                )
                return re.sub(rb"Content-Length: \d+", chances.choice(lengths), data)
            case 5:
                head, _, body = data.partition(b"\r\n\r\n")
                chunks = chances.choice(
                    (b"zz\r\n", b"5\r\nab", b"-1\r\n\r\n", b"ffffffffffffffff\r\n", b"1\r\na\r\n0\r\n\r\n")
                )
                return (
                    re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head) + b"\r\n\r\n" + chunks + body
                )
            case _:
                return data.replace(b"Host:", b"X-Many: " + b"a" * chances.choice((10_000, 100_000)) + b"\r\nHost:", 1)


V2 = "/v2/projects/{project_id}"
# Where apps use their public key.
PUBLIC = {
    "/v1/receipts",
    "/v1/offers",
    "/v1/subscribers/{app_user_id}/restore/eligibility",
    "/v1/subscribers/redeem_purchase",
}


def _weight(operation: Operation) -> float:
    """What takes long is rarer, and what leaves less to ask about."""
    if "/charts/" in operation.path or "/metrics/" in operation.path:
        return 0.1
    return 0.25 if operation.method == "DELETE" else 1.0


def _quoted(chances: random.Random, text: str) -> str:
    if chances.random() < 0.05:
        return chances.choice(("%c0%80", "%ff", "%", "%zz", "%u0041", "%2e%2e%2f", "%00"))
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")


def _template(path: str) -> bytes:
    return re.sub(r"\\\{\w+\\\}", "[^/?#]+", re.escape(path)).encode()


def _is_clean(headers: Mapping[str, str]) -> bool:
    return all(value.isascii() and value.isprintable() and len(value) < 4_000 for value in headers.values())
