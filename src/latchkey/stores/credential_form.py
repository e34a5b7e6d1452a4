"""The credential fields of a store, declared once by its adapter: how each is checked, and what may be shown of it. The
body of the API, the dashboard's form and the options of the command line follow from them."""

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from importlib.resources import files
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
    # The value as the credentials hold it. ValueError goes on after the field's name, and never repeats what it holds.
    check: Callable[[Any], Any] = lambda value: value
    # What may be shown of that: an id or a fingerprint, never a key.
    show: Callable[[Any], str] = str
    # Only for a store emulator. The form offers it where the settings allow one.
    emulator: bool = False
    # It replaces this address of the store. Empty: the store has several.
    address: str | None = None

    @property
    def shown_in_full(self) -> bool:
        """Of the others something else is shown once they are saved, such as the e-mail address of an account."""
        return not (self.file or self.choices)


def declared(package: str, code: Mapping[str, Mapping[str, Any]]) -> tuple[CredentialField, ...]:
    """The fields in `credentials.toml` of a store's package, with what is no data, by the field's name."""
    found = tomllib.loads((files(package) / "credentials.toml").read_text(encoding="utf-8"))
    for name, said in found.items():
        if form := said.pop("form", None):
            said["check"] = text(re.compile(form), said.pop("wrong"), said.pop("longest", 1000))
        said |= code.get(name, {})
    return tuple(CredentialField(name, **said) for name, said in found.items())


class CredentialForm(Struct, frozen=True, eq=False):
    # Of the store, as its own documentation names it.
    title: str
    fields: tuple[CredentialField, ...]
    # The credentials, of the checked values by their fields' names. ValueError for what does not fit together.
    made: Callable[..., Any]
    # What is shown beside the fields.
    besides: Callable[[Any], dict[str, str]] = lambda _: {}

    def parse(self, given: Mapping[str, Any], allowed_hosts: frozenset[str]) -> Any:
        """Typed credentials, or `ValueError` with a message that names the field and what is wrong with it, never what
        it holds. `allowed_hosts` are those that the settings allow in place of the store's."""
        if unknown := sorted(str(name)[:50] for name in given.keys() - {one.name for one in self.fields}):
            raise ValueError(f"{unknown[0]} is not a field of {self.title} credentials")
        checked: dict[str, Any] = {one.name: one.address for one in self.fields if one.address is not None}
        for one in self.fields:
            value = given.get(one.name)
            if value in (None, "", []):
                if one.required:
                    raise ValueError(f"{one.name} is missing")
            elif one.address is not None:
                checked[one.name] = allowed_address(one.name, value, allowed_hosts)
            else:
                try:
                    checked[one.name] = one.check(value)
                except ValueError as error:
                    raise ValueError(f"{one.name} {error}") from None
        return self.made(**checked)

    def describe(self, credentials: Any) -> dict[str, str]:
        """What may be shown of parsed credentials."""
        held = ((one, getattr(credentials, one.name)) for one in self.fields)
        shown = {one.name: one.show(value) for one, value in held if value not in (None, one.address)}
        return {**self.besides(credentials), **shown}


def text(form: re.Pattern[str], wrong: str, longest: int = 1000) -> Callable[[object], str]:
    """A text of this form; of a form with a group, what is in that."""

    def check(value: object) -> str:
        found = form.fullmatch(value) if isinstance(value, str) and len(value) <= longest else None
        if found is None:
            raise ValueError(wrong)
        return found[found.lastindex or 0]

    return check


def public_fingerprint(key: PublicKeyTypes) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


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
