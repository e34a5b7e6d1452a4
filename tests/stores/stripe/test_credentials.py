"""What an operator may give, what is refused with which words, and that no secret is ever shown."""

from typing import Any

import pytest

from latchkey.stores.errors import CredentialsRefused, StoreDown
from latchkey.stores.http import StoreResponse
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.stores.stripe.credentials import API_BASE_URL, FORM
from tests.stores.stripe.emulated_stripe import (
    HOST,
    KEY,
    OLD_SECRET,
    SECRET,
    EmulatedStripe,
    Json,
    connected,
    error,
    given,
)

ALLOWED = frozenset({HOST})


def test_stripes_own_address_and_key_are_the_defaults() -> None:
    parsed = FORM.parse({"api_key": KEY, "webhook_secret": SECRET}, frozenset())
    assert (parsed.api_base_url, parsed.user_id_metadata_key) == (API_BASE_URL, "app_user_id")
    assert (parsed.livemode, parsed.webhook_secrets, parsed.publishable_key) == (False, (SECRET,), None)


@pytest.mark.parametrize(("key", "livemode"), [("sk_live_", True), ("rk_live_", True), ("sk_test_", False)])
def test_the_key_says_its_mode(key: str, livemode: bool) -> None:
    assert FORM.parse(given(api_key=f"{key}aaaaaaaaaaaa"), ALLOWED).livemode is livemode


WRONG: dict[str, tuple[Json, str]] = {
    "no key": ({"api_key": None}, "api_key is missing"),
    "no secret": ({"webhook_secret": ""}, "webhook_secret is missing"),
    "an empty list of secrets": ({"webhook_secret": []}, "webhook_secret is missing"),
    "a publishable key": ({"api_key": "pk_test_aaaaaaaaaaaa"}, "api_key must be"),
    "a key with a line break": ({"api_key": KEY + "\n"}, "api_key must be"),
    "a key of another type": ({"api_key": 5}, "api_key must be"),
    "a secret of another type": ({"webhook_secret": 5}, "webhook_secret must be"),
    "a key as the secret": ({"webhook_secret": KEY}, "webhook_secret must be"),
    "a wrong previous secret": ({"previous_webhook_secret": "x"}, "previous_webhook_secret must be"),
    "three secrets": (
        {"webhook_secret": [SECRET, OLD_SECRET], "previous_webhook_secret": "whsec_cccccccccccc"},
        "there can be two at most",
    ),
    "a secret key for pages": ({"publishable_key": KEY}, "publishable_key must be"),
    "keys of two modes": ({"publishable_key": "pk_live_aaaaaaaaaaaa"}, "both be live keys or both be test keys"),
    "a metadata key with brackets": ({"user_id_metadata_key": "a[b]"}, "user_id_metadata_key must have"),
    "a long metadata key": ({"user_id_metadata_key": "a" * 41}, "user_id_metadata_key must have"),
    "another host": ({"api_base_url": "https://evil.example.com"}, "does not allow: evil.example.com"),
    "no encryption": ({"api_base_url": f"http://{HOST}"}, "api_base_url must be https"),
    "an unknown field": ({"secret": "x"}, "secret is not a field of Stripe"),
}


@pytest.mark.parametrize(("more", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_and_no_secret_repeated(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        FORM.parse(given(**more), ALLOWED)
    said = str(refused.value)
    assert message in said
    assert not any(secret in said for secret in (KEY, SECRET, OLD_SECRET))


def test_no_secret_is_shown() -> None:
    saved = FORM.parse(given(previous_webhook_secret=OLD_SECRET, publishable_key="pk_test_cccccccccccc"), ALLOWED)
    shown = FORM.describe(saved)
    assert shown["mode"] == "test"
    assert shown["publishable_key"] == "pk_test_cccccccccccc"
    assert shown["api_base_url"] == f"https://{HOST}"
    for told in (str(shown), repr(saved), str(connected(StripeAdapter(lambda: 0, EmulatedStripe())))):
        assert not any(secret in told for secret in (KEY, SECRET, OLD_SECRET, KEY[8:], SECRET[6:], OLD_SECRET[6:]))


async def test_every_right_that_reading_needs_is_tried() -> None:
    emulated = EmulatedStripe()
    adapter = StripeAdapter(lambda: emulated.now, emulated)
    await adapter.check_credentials(connected(adapter))
    assert len(emulated.calls) == 6
    for path in ("subscriptions", "invoices", "invoiceitems", "charges", "events", "checkout/sessions"):
        emulated.refuse = {path: error(403)}.get
        with pytest.raises(CredentialsRefused, match="permission"):
            await adapter.check_credentials(connected(adapter))


async def test_a_key_that_stripe_does_not_know_is_refused() -> None:
    adapter = StripeAdapter(lambda: 0, EmulatedStripe())
    with pytest.raises(CredentialsRefused, match="401") as refused:
        await adapter.check_credentials(connected(adapter, api_key="sk_test_zzzzzzzzzzzz"))
    assert "zzzz" not in refused.value.message


@pytest.mark.parametrize(
    "answer",
    [
        StoreResponse(500, {}, b"oops"),
        StoreResponse(429, {"retry-after": "3"}, b"{}"),
        StoreResponse(302, {"location": "https://evil.example.com"}, b""),
        StoreResponse(404, {}, b"<html>not here</html>"),
        StoreResponse(200, {}, b"<html>welcome</html>"),
        StoreResponse(200, {}, b"[]"),
        StoreResponse(200, {}, b'{"data": 5}'),
        StoreResponse(409, {}, b'{"error": {"type": "api_error", "code": "lock_timeout"}}'),
        StoreResponse(400, {}, b'{"error": "strange"}'),
        StoreResponse(400, {}, b'{"error": {"code": "' + b"x" * 100 + b' <script>"}}'),
    ],
)
async def test_what_stripe_would_not_say_is_stripe_in_trouble(answer: StoreResponse) -> None:
    emulated = EmulatedStripe(refuse=lambda _: answer)
    adapter = StripeAdapter(lambda: emulated.now, emulated)
    with pytest.raises(StoreDown) as refused:
        await adapter.check_credentials(connected(adapter))
    assert "<" not in refused.value.message
