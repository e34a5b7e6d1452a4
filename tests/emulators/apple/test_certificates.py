from datetime import UTC, datetime

import jwt
import pytest
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException
from cryptography.hazmat.primitives.serialization import Encoding

from latchkey.emulators.apple.apple_keys import AppleChain, make_chain

SIGNED_AT = 1_790_000_000_000
PAYLOAD = {"bundleId": "com.example", "environment": "Sandbox", "signedDate": SIGNED_AT, "transactionId": "1"}


@pytest.fixture(scope="module")
def chain() -> AppleChain:
    return make_chain()


def verifier(chain: AppleChain) -> SignedDataVerifier:
    return SignedDataVerifier([chain.root.public_bytes(Encoding.DER)], False, Environment.SANDBOX, "com.example")


def test_apples_library_believes_what_the_chain_signed(chain: AppleChain) -> None:
    signed = chain.sign(PAYLOAD)
    assert verifier(chain).verify_and_decode_signed_transaction(signed).transactionId == "1"
    assert jwt.get_unverified_header(signed).keys() == {"alg", "x5c"}


def test_a_chain_written_down_signs_as_before(chain: AppleChain) -> None:
    again = AppleChain.from_pem(chain.to_pem())
    assert verifier(chain).verify_and_decode_signed_transaction(again.sign(PAYLOAD)).transactionId == "1"
    assert again.root_pem == chain.root_pem
    assert "PRIVATE KEY" not in chain.root_pem
    with pytest.raises(ValueError):
        AppleChain.from_pem(chain.root_pem)


@pytest.mark.parametrize(
    "wrong",
    [
        make_chain(leaf_mark=False),
        make_chain(intermediate_mark=False),
        make_chain(not_after=datetime(2020, 1, 1, tzinfo=UTC)),
        make_chain(not_before=datetime(2100, 1, 1, tzinfo=UTC)),
    ],
    ids=["leaf without mark", "intermediate without mark", "expired", "not valid yet"],
)
def test_a_chain_that_lacks_something_is_not_believed(wrong: AppleChain) -> None:
    with pytest.raises(VerificationException):
        verifier(wrong).verify_and_decode_signed_transaction(wrong.sign(PAYLOAD))


def test_another_root_is_not_believed(chain: AppleChain) -> None:
    with pytest.raises(VerificationException):
        verifier(chain).verify_and_decode_signed_transaction(make_chain().sign(PAYLOAD))
