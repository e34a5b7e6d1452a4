"""A StoreKit 1 receipt: the list of what a customer has bought, as a signed PKCS #7 message in base64."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options, PKCS7SignatureBuilder

from latchkey.domain.instants import Ms
from latchkey.emulators.apple.apple_keys import AppleChain

_INTEGER, _OCTETS, _UTF8, _IA5, _SEQUENCE, _SET = 0x02, 0x04, 0x0C, 0x16, 0x30, 0x31
# Apple's numbers for the fields of a receipt.
_ENVIRONMENT, _BUNDLE_ID, _CREATED, _IN_APP, _TRANSACTION_ID = 0, 2, 12, 17, 1703


def make_receipt(chain: AppleChain, *, bundle_id: str, created_at: Ms, transaction_ids: Sequence[str]) -> str:
    created = datetime.fromtimestamp(created_at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    bought = [_field(_IN_APP, _fields(_field(_TRANSACTION_ID, _der(_UTF8, id.encode())))) for id in transaction_ids]
    content = _fields(
        _field(_ENVIRONMENT, _der(_UTF8, b"ProductionSandbox")),
        _field(_BUNDLE_ID, _der(_UTF8, bundle_id.encode())),
        _field(_CREATED, _der(_IA5, created.encode())),
        *bought,
    )
    builder = PKCS7SignatureBuilder().set_data(content).add_signer(chain.leaf, chain.key, hashes.SHA256())
    builder = builder.add_certificate(chain.intermediate).add_certificate(chain.root)
    signed = builder.sign(Encoding.DER, [PKCS7Options.Binary, PKCS7Options.NoAttributes])
    return base64.b64encode(signed).decode()


def _fields(*fields: bytes) -> bytes:
    return _der(_SET, b"".join(fields))


def _field(number: int, value: bytes) -> bytes:
    octets = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return _der(_SEQUENCE, _der(_INTEGER, octets) + _der(_INTEGER, b"\x01") + _der(_OCTETS, value))


def _der(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 0x80:
        return bytes([tag, size]) + value
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + value
