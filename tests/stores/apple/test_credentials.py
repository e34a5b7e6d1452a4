import re
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding

from latchkey.emulators.apple.apple_keys import AppleChain, make_chain
from latchkey.stores.apple import credentials
from latchkey.stores.apple.credentials import FORM, AppleCredentials
from tests.stores.apple.app_store import PRIVATE_KEY, given_credentials

NOBODY: frozenset[str] = frozenset()
SECRET = "".join(PRIVATE_KEY.splitlines()[1:-1])


def test_credentials_are_typed_and_hide_their_key(chain: AppleChain) -> None:
    parsed = FORM.parse(given_credentials(chain), NOBODY)
    assert parsed.app_apple_id == 1_234_567_890
    assert parsed.root_certificates == (chain.root_pem,)
    shown = FORM.describe(parsed)
    for text in (repr(parsed), str(parsed), repr(shown)):
        assert "PRIVATE" not in text
        assert SECRET[:20] not in text
    assert shown["key_id"] == "2X9R4HXF34"
    assert "Latchkey Apple emulator Root CA (SHA-256 " in shown["root_certificates"]
    assert shown["private_key"].startswith("public key SHA-256 ")
    assert "consumption" not in shown


def test_what_was_parsed_can_be_stored_and_parsed_again(chain: AppleChain) -> None:
    given = given_credentials(chain, consumption={"customer_consented": True}, app_apple_id="1234567890")
    parsed = FORM.parse(given, NOBODY)
    stored = msgspec.to_builtins(parsed)
    assert FORM.parse({k: v for k, v in stored.items() if v is not None}, NOBODY) == parsed
    assert msgspec.convert(stored, AppleCredentials) == parsed


@pytest.mark.parametrize("left_out", [None, [], ""])
def test_apples_own_roots_need_no_download(chain: AppleChain, left_out: Any) -> None:
    shown = FORM.describe(FORM.parse(given_credentials(chain, root_certificates=left_out), NOBODY))["root_certificates"]
    assert re.findall(r"SHA-256 (\w{8})", shown) == ["63343abf", "b0b1730e"]
    given = given_credentials(chain, root_certificates=list(credentials.apple_roots()))
    assert FORM.describe(FORM.parse(given, NOBODY))["root_certificates"] == shown


def test_a_root_with_another_fingerprint_is_not_apples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(credentials._APPLE_ROOTS, "AppleRootCA", "00" * 32)
    with pytest.raises(RuntimeError, match="is not Apple's certificate"):
        credentials.apple_roots.__wrapped__()


def test_several_roots_in_one_text_and_the_same_twice(chain: AppleChain) -> None:
    other = make_chain()
    given = given_credentials(chain, root_certificates=[chain.root_pem + other.root_pem, chain.root_pem])
    assert FORM.parse(given, NOBODY).root_certificates == (chain.root_pem, other.root_pem)
    assert FORM.parse(given_credentials(chain, root_certificates=chain.root_pem), NOBODY).root_certificates


def test_the_address_only_leads_where_the_operator_allows(chain: AppleChain) -> None:
    given = given_credentials(chain, api_base_url="https://apple.test.example/")
    assert FORM.parse(given, frozenset({"apple.test.example"})).api_base_url == "https://apple.test.example"
    with pytest.raises(ValueError, match=r"^api_base_url leads to a host that this installation does not allow"):
        FORM.parse(given, NOBODY)


P384 = (
    generate_private_key(SECP384R1())
    .private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, None) for field in ("bundle_id", "app_apple_id", "issuer_id", "key_id", "private_key")),
        ("bundle_id", "not a bundle"),
        ("bundle_id", 5),
        ("app_apple_id", "abc"),
        ("app_apple_id", 0),
        ("app_apple_id", True),
        ("app_apple_id", "9" * 40),
        ("issuer_id", "x" * 100),
        ("key_id", "a/b"),
        ("private_key", "secret"),
        # The keys are random, and every test process must give a test the same name.
        pytest.param("private_key", PRIVATE_KEY[:100], id="private_key-cut off"),
        pytest.param("private_key", P384, id="private_key-another curve"),
        ("private_key", "x" * 50_000),
        ("private_key", {"a": 1}),
        ("root_certificates", ["nothing"]),
        ("root_certificates", [5]),
        ("root_certificates", {"a": 1}),
        ("root_certificates", ["é"]),
        ("api_base_url", 5),
        ("consumption", "yes"),
        ("consumption", {}),
        ("consumption", {"customer_consented": False}),
        ("consumption", {"customer_consented": True, "refund_preference": "NEVER"}),
        ("consumption", {"customer_consented": True, "more": 1}),
        ("other", 1),
    ],
)
def test_a_wrong_field_is_named_and_not_repeated(chain: AppleChain, field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{field}") as raised:
        FORM.parse(given_credentials(chain, **{field: value}), NOBODY)
    assert "secret" not in str(raised.value)
    assert SECRET[:20] not in str(raised.value)


def test_an_intermediate_is_no_root(chain: AppleChain) -> None:
    for certificate in (chain.intermediate, chain.leaf):
        pem = certificate.public_bytes(Encoding.PEM).decode()
        with pytest.raises(ValueError, match=r"^root_certificates must be root certificates"):
            FORM.parse(given_credentials(chain, root_certificates=[pem]), NOBODY)
