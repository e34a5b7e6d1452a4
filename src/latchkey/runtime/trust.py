"""Makes Chromium trust a private certificate authority, without installing it on the machine.

Chromium can be told to accept certain public keys. It accepts them anywhere in a chain, so the authority's own key must
not be listed: anybody could send that certificate along. Only keys of servers are listed whose certificate we have
verified against the authority ourselves, over a connection in which they proved that they hold the key.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PATIENCE = 60.0


def accepted_keys(authority: Path, origins: Iterable[str]) -> list[str]:
    """For --ignore-certificate-errors-spki-list. Servers that are unreachable, or of another authority, are skipped."""
    context = ssl.create_default_context(cafile=str(authority))
    found = (_key(context, one) for one in origins if one.startswith("https://"))
    return sorted({one for one in found if one is not None})


def _key(context: ssl.SSLContext, origin: str) -> str | None:
    parts = urlsplit(origin)
    host = parts.hostname or ""
    try:
        with (
            socket.create_connection((host, parts.port or 443), PATIENCE) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            certificate = secured.getpeercert(binary_form=True)
    except OSError:
        return None
    if certificate is None:
        return None
    key = x509.load_der_x509_certificate(certificate).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(spki).digest()).decode()
