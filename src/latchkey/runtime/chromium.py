"""Finds and starts the browser, which trusts a private certificate authority without installing it on the machine."""

import base64
import hashlib
import os
import shutil
import socket
import ssl
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from latchkey.runtime.device_errors import CannotShowError, ChromiumMissingError

VARIABLE = "LATCHKEY_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
FLAGS = (
    # As root, and in most containers, Chromium cannot create its own sandbox and would not start.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # In tests the device connects only to the app.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> Path:
    if named := os.environ.get(VARIABLE):
        if not os.access(named, os.X_OK):
            raise ChromiumMissingError(f"{VARIABLE} is {named}, which is not a program.")
        return Path(named)
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    for place in _MAC:
        if os.access(place, os.X_OK):
            return Path(place)
    raise ChromiumMissingError(
        "There is no Chromium on this machine. Install it (Debian: `sudo apt-get install chromium`; Fedora: "
        "`sudo dnf install chromium`; macOS: `brew install --cask chromium`), or set "
        f"{VARIABLE} to the path of a Chromium or Chrome."
    )


def require_screen() -> None:
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise CannotShowError("There is no screen here for a window (DISPLAY is not set). Leave out --window.")


TIMEOUT = 60.0


def accepted_keys(authority: Path, origins: Iterable[str]) -> list[str]:
    """For --ignore-certificate-errors-spki-list. Servers that are unreachable, or of another authority, are skipped."""
    context = ssl.create_default_context(cafile=str(authority))
    found = (_key(context, origin) for origin in origins if origin.startswith("https://"))
    return sorted({key for key in found if key is not None})


def _key(context: ssl.SSLContext, origin: str) -> str | None:
    parts = urlsplit(origin)
    host = parts.hostname or ""
    try:
        with (
            socket.create_connection((host, parts.port or 443), TIMEOUT) as connection,
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
