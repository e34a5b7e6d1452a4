"""The keys of the pretend App Store: its certificate chain, and the key by which the service may call its API."""

from __future__ import annotations

import secrets
import string
import uuid
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, generate_private_key

from latchkey.emulators.apple.certificates import Chain, make_chain


@dataclass(frozen=True, slots=True)
class AppleKeys:
    chain: Chain
    issuer_id: str
    key_id: str
    # Of the service, as the App Store hands it out once (a .p8 file).
    private_key: str = field(repr=False)

    @property
    def public_key(self) -> EllipticCurvePublicKey:
        loaded = serialization.load_pem_private_key(self.private_key.encode(), None).public_key()
        assert isinstance(loaded, EllipticCurvePublicKey)
        return loaded


def make_keys() -> AppleKeys:
    key = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key_id = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(10))
    return AppleKeys(make_chain(), str(uuid.uuid4()), key_id, key.decode())
