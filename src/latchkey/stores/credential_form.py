"""The credential fields of a store, declared once by its adapter. The body of the API, the dashboard's form and the
options of the command line follow from them."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class CredentialField:
    name: str
    # In the dashboard's form.
    label: str
    # In the API's reference.
    description: str
    # In the form, below the field.
    hint: str = ""
    _: KW_ONLY
    # The first of them is chosen if nothing is.
    choices: Mapping[str, str] = field(default_factory=dict)
    # The value as the API takes it, from the text of a form. A ValueError is what its user reads.
    from_text: Callable[[str], Any] = str
    # What the form offers. It may name {host} and {app_id}.
    suggestion: str = ""
    # The types of its JSON.
    json: Any = str
    required: bool = False
    # Never sent back to the browser.
    secret: bool = False
    # The value is the content of a file, such as "the .p8 file".
    file: str = ""
    # Only for a store emulator. The form offers it where the settings allow one.
    emulator: bool = False
    # It replaces an address of the store.
    address: bool = False

    @property
    def shown_in_full(self) -> bool:
        """Of the others something else is shown once they are saved, such as the e-mail address of an account."""
        return not (self.file or self.choices)


def address_field(name: str, label: str, description: str) -> CredentialField:
    return CredentialField(name, label, description, emulator=True, address=True)


def api_address_field(label: str) -> CredentialField:
    return address_field("api_base_url", label, "Another host in place of the store's, if it is allowed.")


class CredentialForm(Struct, frozen=True, eq=False):
    # Of the store, as its own documentation names it.
    title: str
    fields: tuple[CredentialField, ...]
    # From what was given and the hosts that the settings allow: typed credentials, or `ValueError` with a message that
    # names the field and what is wrong with it, never what it holds.
    parse: Callable[[Mapping[str, Any], frozenset[str]], Any]
    # What may be shown of parsed credentials: ids and fingerprints, never a key.
    describe: Callable[[Any], dict[str, str]]


def check_required(given: Mapping[str, Any], fields: Sequence[CredentialField]) -> None:
    for credential_field in fields:
        if credential_field.required and given.get(credential_field.name) in (None, "", []):
            raise ValueError(f"{credential_field.name} is missing")


def check_known(
    given: Mapping[str, Any], fields: Sequence[CredentialField], message: str = "unknown field: {name}"
) -> None:
    if unknown := sorted(
        str(name)[:50] for name in given.keys() - {credential_field.name for credential_field in fields}
    ):
        raise ValueError(message.format(name=unknown[0]))


def text_of(given: Mapping[str, Any], name: str, form: re.Pattern[str], wrong: str, longest: int = 1000) -> str:
    value = given[name]
    if not isinstance(value, str) or len(value) > longest or form.fullmatch(value) is None:
        raise ValueError(f"{name} {wrong}")
    return value


def public_fingerprint(key: PublicKeyTypes) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def address_of(given: Mapping[str, Any], name: str, allowed_hosts: frozenset[str]) -> str | None:
    value = given.get(name)
    return None if value in (None, "") else allowed_address(name, value, allowed_hosts)


def allowed_address(name: str, given: object, allowed_hosts: frozenset[str]) -> str:
    """An address that replaces a store's own, without a slash at its end. ValueError names the field and says why not.

    Its host (or host:port) must be one that the operator's settings allow. It is https, except for this machine.
    """
    if not isinstance(given, str) or len(given) > 500 or not given.isascii() or any(c.isspace() for c in given):
        raise ValueError(f"{name} must be an address such as https://stores.example.com")
    try:
        parts = urlsplit(given)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise ValueError(f"{name} is not a valid address") from None
    if not host or parts.scheme not in ("https", "http") or parts.username is not None or parts.password is not None:
        raise ValueError(f"{name} must be an address such as https://stores.example.com, without a user name")
    if parts.query or parts.fragment or "?" in given or "#" in given or "\\" in given:
        raise ValueError(f"{name} must not have a query or a fragment")
    allowed = {name.lower() for name in allowed_hosts}
    if host not in allowed and f"{host}:{port}" not in allowed:
        raise ValueError(
            f"{name} leads to a host that this installation does not allow: {host} (setting store_allow_hosts)"
        )
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise ValueError(f"{name} must be https")
    return given.rstrip("/")
