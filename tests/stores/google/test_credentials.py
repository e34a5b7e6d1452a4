"""What an operator may give, what is refused with which words, and that no secret is ever shown."""

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from latchkey.emulators.google.google_keys import SigningKey
from latchkey.stores.google.credentials import API_BASE_URL, CERTIFICATES_URL, FORM, TOKEN_URL
from tests.stores.google.play import ACCOUNT, HOST, PACKAGE, given

ALLOWED = frozenset({HOST})


def pem(key: Any) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return str(key.private_bytes(*form).decode())


def test_googles_own_addresses_are_used_where_none_is_given(keys: SigningKey) -> None:
    asked = {name: value for name, value in given(keys).items() if not name.endswith("_url")}
    parsed = FORM.parse(asked, frozenset())
    assert (parsed.api_base_url, parsed.certificates_url) == (API_BASE_URL, CERTIFICATES_URL)
    assert parsed.token_url == TOKEN_URL


def test_the_service_account_may_be_the_text_of_its_file(keys: SigningKey) -> None:
    text = msgspec.json.encode(keys.service_account(ACCOUNT)).decode()
    assert FORM.parse(given(keys) | {"service_account": text}, ALLOWED).service_account.email == ACCOUNT


def test_the_token_address_in_the_file_is_not_followed(keys: SigningKey) -> None:
    account = keys.service_account(ACCOUNT) | {"token_uri": "http://169.254.169.254/token"}
    asked = {name: value for name, value in given(keys).items() if name != "token_url"}
    assert FORM.parse(asked | {"service_account": account}, ALLOWED).token_url == TOKEN_URL


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no package": ({"package_name": None}, "package_name is missing"),
    "package": ({"package_name": "my app"}, "package_name must be a package name"),
    "package with a path": ({"package_name": "com.example/" + ".."}, "package_name must be a package name"),
    "package of another type": ({"package_name": 5}, "package_name must be a package name"),
    "no account": ({"service_account": ""}, "service_account is missing"),
    "account not JSON": ({"service_account": "hello"}, "service_account is not valid JSON"),
    "account a list": ({"service_account": [1]}, "service_account must be the JSON"),
    "account of another type": ({"service_account": {"type": "authorized_user"}}, "service_account must be the JSON"),
    "no email": ({"service_account": {"type": "service_account"}}, "service_account has no client_email"),
    "no key": (
        {"service_account": {"type": "service_account", "client_email": ACCOUNT}},
        "service_account has no usable private_key",
    ),
    "another key": (
        {
            "service_account": {
                "type": "service_account",
                "client_email": ACCOUNT,
                "private_key": pem(ec.generate_private_key(ec.SECP256R1())),
            }
        },
        "service_account has no usable private_key",
    ),
    "a short key": (
        {
            "service_account": {
                "type": "service_account",
                "client_email": ACCOUNT,
                "private_key": pem(rsa.generate_private_key(65537, 1024)),
            }
        },
        "service_account has no usable private_key",
    ),
    "no audience": ({"push_audience": ""}, "push_audience is missing"),
    "audience": ({"push_audience": "two words"}, "push_audience must be a text without spaces"),
    "sender": ({"push_service_account": "me"}, "push_service_account must be the email address"),
    "api host": ({"api_base_url": "https://evil.example.com"}, "api_base_url leads to a host"),
    "certificates host": ({"certificates_url": "https://evil.example.com/c"}, "certificates_url leads to a host"),
    "token host": ({"token_url": "https://evil.example.com/t"}, "token_url leads to a host"),
    "not https": ({"api_base_url": f"http://{HOST}"}, "api_base_url must be https"),
    "unknown": ({"packagename": "x"}, "packagename is not a field of Google Play"),
}


@pytest.mark.parametrize(("wrong", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named(keys: SigningKey, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FORM.parse(given(keys) | wrong, ALLOWED)


def test_a_broken_key_is_not_repeated(keys: SigningKey) -> None:
    account = keys.service_account(ACCOUNT)
    account["private_key"] = account["private_key"].replace("A", "!", 3)
    with pytest.raises(ValueError, match="no usable private_key") as refused:
        FORM.parse(given(keys) | {"service_account": account}, ALLOWED)
    assert account["private_key"][40:80] not in str(refused.value)
    assert refused.value.__cause__ is None


def test_nothing_that_is_shown_holds_the_key(keys: SigningKey) -> None:
    parsed = FORM.parse(given(keys), ALLOWED)
    shown = FORM.describe(parsed)
    assert shown["package_name"] == PACKAGE
    assert shown["service_account"] == ACCOUNT
    assert shown["api_base_url"] == f"https://{HOST}"
    secret = keys.private_pem.splitlines()[1]
    assert secret not in repr(parsed) + repr(shown)
    assert "PRIVATE KEY" not in repr(parsed) + repr(shown)
