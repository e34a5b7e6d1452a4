"""The emulator's keys sign what Google's own library accepts."""

import time

import jwt as pyjwt
import pytest
from google.auth import jwt

from latchkey.emulators.google.google_keys import SigningKey, make_signing_key, restore_signing_key

AUDIENCE = "https://latchkey.example.com/push"
PUSHER = "push@project.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def keys() -> SigningKey:
    return make_signing_key()


def test_googles_own_library_accepts_a_push_token(keys: SigningKey) -> None:
    token = keys.push_token(AUDIENCE, PUSHER, int(time.time()))
    claims = jwt.decode(token, certs=keys.certificates(), audience=AUDIENCE)
    assert claims["email"] == PUSHER
    assert claims["email_verified"] is True
    assert jwt.decode_header(token)["kid"] == keys.kid


def test_any_claim_can_be_replaced_or_left_out(keys: SigningKey) -> None:
    token = keys.push_token(AUDIENCE, PUSHER, int(time.time()), email="other@example.com", email_verified=None)
    claims = jwt.decode(token, certs=keys.certificates(), audience=AUDIENCE)
    assert claims["email"] == "other@example.com"
    assert "email_verified" not in claims


def test_restored_keys_have_the_same_id_and_accept_each_others_tokens(keys: SigningKey) -> None:
    again = restore_signing_key(keys.private_pem)
    assert again.kid == keys.kid
    token = keys.push_token(AUDIENCE, PUSHER, int(time.time()))
    assert jwt.decode(token, certs=again.certificates(), audience=AUDIENCE)["email"] == PUSHER


def test_an_assertion_counts_for_its_own_address_and_signer_only(keys: SigningKey) -> None:
    now = int(time.time())
    account = keys.service_account("api@project.iam.gserviceaccount.com")
    claims = {"iss": account["client_email"], "scope": "s", "aud": "https://t/token", "iat": now, "exp": now + 60}
    assertion = pyjwt.encode(claims, account["private_key"], algorithm="RS256")
    assert keys.claimed_by(assertion, "https://t/token")["iss"] == account["client_email"]
    with pytest.raises(ValueError, match="not a valid assertion"):
        keys.claimed_by(assertion, "https://other/token")
    with pytest.raises(ValueError, match="not a valid assertion"):
        make_signing_key().claimed_by(assertion, "https://t/token")


def test_the_private_key_is_not_in_the_repr(keys: SigningKey) -> None:
    assert "RSAPrivateKey" not in repr(keys)
