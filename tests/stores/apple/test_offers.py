import base64
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256

from latchkey.emulators.apple.apple_keys import AppleChain
from latchkey.stores.apple.api import sign_offer
from latchkey.stores.apple.credentials import parse
from tests.stores.apple.app_store import ACCOUNT, BUNDLE_ID, PUBLIC_KEY, START, given_credentials

NONCE = UUID("5CF1A0A2-0A9B-4B31-8D5B-2A2F6B1F3D10")


def test_a_signature_holds_for_one_offer_and_one_account(chain: AppleChain) -> None:
    credentials = parse(given_credentials(chain), frozenset())
    signature = sign_offer(
        credentials, product_id="monthly", offer_id="spring", account_token=ACCOUNT, nonce=NONCE, now=START
    )
    said = "\u2063".join((BUNDLE_ID, "2X9R4HXF34", "monthly", "spring", ACCOUNT, str(NONCE), str(START)))
    PUBLIC_KEY.verify(base64.b64decode(signature), said.encode(), ECDSA(SHA256()))
