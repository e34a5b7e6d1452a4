"""The signature of a webhook. Standard Webhooks' own library says what is right."""

import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from latchkey.consumer.api.webhook_receiver import WebhookSignatures

SECRET, OTHER = (f"whsec_{base64.b64encode(bytes([number]) * 24).decode()}" for number in (1, 2))
BODY = '{"event": {"type": "RENEWAL", "app_user_id": "Zoë"}}'.encode()
Headers = dict[bytes, bytes]


def signed(secret: str = SECRET, body: bytes = BODY, *, id: str = "msg_1", age: int = 0) -> Headers:
    at = int(time.time()) - age
    signature = Webhook(secret).sign(id, datetime.fromtimestamp(at, UTC), body.decode())
    return {
        b"webhook-id": id.encode(),
        b"webhook-timestamp": str(at).encode(),
        b"webhook-signature": signature.encode(),
    }


def library_verifies(headers: Headers, body: bytes) -> bool:
    try:
        Webhook(SECRET).verify(body, {name.decode(): one.decode() for name, one in headers.items()}, json_parse=False)
    except Exception:
        return False
    return True


def changed(**more: bytes | None) -> Callable[[], Headers]:
    def made() -> Headers:
        given = {f"webhook-{name}".encode(): value for name, value in more.items()}
        return {name: value for name, value in {**signed(), **given}.items() if value is not None}

    return made


CASES: dict[str, Callable[[], Headers]] = {
    "signed": signed,
    "signed by another": lambda: signed(OTHER),
    "another body": lambda: signed(body=b"{}"),
    "just not too old": lambda: signed(age=280),
    "just not too new": lambda: signed(age=-280),
    "too old": lambda: signed(age=320),
    "too new": lambda: signed(age=-320),
    "no id": changed(id=None),
    "another id": changed(id=b"msg_2"),
    "no timestamp": changed(timestamp=None),
    "another timestamp": changed(timestamp=b"%d" % (time.time() - 60)),
    "a timestamp that is no number": changed(timestamp=b"now"),
    "a timestamp that is no instant": changed(timestamp=b"9" * 400),
    "no signature": changed(signature=None),
    "an empty signature": changed(signature=b""),
    "nonsense": changed(signature=b"v1,@@ nonsense"),
    "another version": lambda: {**signed(), b"webhook-signature": b"v2" + signed()[b"webhook-signature"][2:]},
    "a part of it": lambda: {**signed(), b"webhook-signature": signed()[b"webhook-signature"][:20]},
    "the second of two": lambda: {
        **signed(), b"webhook-signature": signed(OTHER)[b"webhook-signature"] + b" " + signed()[b"webhook-signature"],
    },
}  # fmt: skip


@pytest.mark.parametrize("headers", CASES.values(), ids=CASES)
def test_a_signature_is_right_where_the_library_finds_it_right(headers: Callable[[], Headers]) -> None:
    one = headers()
    assert WebhookSignatures([SECRET]).verify(one, BODY) == library_verifies(one, BODY)


def test_a_secret_may_be_without_prefix_or_padding() -> None:
    key = base64.b64encode(b"25 bytes, so that it is padded"[:25]).decode()
    assert key.endswith("==")
    for written in (key, key.rstrip("="), f"whsec_{key}", f"whsec_{key.rstrip('=')}"):
        assert WebhookSignatures([written]).verify(signed(key), BODY)


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        WebhookSignatures(["whsec_"])
