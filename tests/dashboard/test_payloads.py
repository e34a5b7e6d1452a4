"""The payload of a journal entry, made readable. It may hold anything: phones send receipts before they are checked."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from msgspec import json

from latchkey.dashboard.payloads import opened


def signed(claims: object) -> str:
    return f"eyJhbGciOiJFUzI1NiJ9.{urlsafe_b64encode(json.encode(claims)).decode().rstrip('=')}.c2lnbmF0dXJl"


def test_signed_parts_are_opened_also_within_each_other() -> None:
    inner = signed({"productId": "pro"})
    assert opened(signed({"data": {"signedTransactionInfo": inner}})) == {
        "data": {"signedTransactionInfo": {"productId": "pro"}}
    }
    assert opened(json.encode({"token": inner, "list": [inner, 7]}).decode()) == {
        "token": {"productId": "pro"},
        "list": [{"productId": "pro"}, 7],
    }


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "plain text",
        "a.b.c",
        "aaaa.bbbb.cccc",
        "eyJh.////.x",
        "eyJh.eyJhIjox.c2ln",
        signed([1]),
        "MIIT" * 50_000,
        "\ud800",
    ],
)
def test_what_is_neither_json_nor_signed_json_stays_as_it_came(payload: str) -> None:
    assert opened(payload) is None


def test_what_is_nested_too_deep_is_left_closed() -> None:
    value: object = "end"
    for _ in range(10):
        value = signed({"next": value})
    assert isinstance(value, str)
    found = opened(value)
    while isinstance(found, dict):
        found = found["next"]
    assert isinstance(found, str)
    assert found != "end"
    assert opened("[" * 100_000) is None
