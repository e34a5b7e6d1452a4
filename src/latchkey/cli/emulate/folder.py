"""The folder of a store emulator: what it keeps from one start to the next. Only its owner can read it.

keys.json          its private keys, and which account it emulates
credentials.json   what to PUT to the app's credentials in Latchkey; written at every start
root.pem           the Apple emulator's root certificate, for who wants to check its signatures
books.json         products, purchases, and where its clock stands
control.json       where its control API is, for `latchkey emulate act` and the like
tls/               its certificate authority, with --tls
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from latchkey.cli.data_folder import read_json, write_json, write_private
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleApp, AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleChain, AppleKeys, make_apple_keys, new_key_id, new_private_key
from latchkey.emulators.emulator import Emulator, EmulatorClock
from latchkey.emulators.google.google_books import GoogleBooks
from latchkey.emulators.google.google_emulator import GoogleApp, GoogleEmulator
from latchkey.emulators.google.google_keys import GoogleKeys, make_google_keys, restore_signing_key
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_emulator import (
    StripeAccount,
    StripeEmulator,
    StripeKeys,
    make_stripe_keys,
    new_webhook_secret,
)
from latchkey.now import real_now

K = TypeVar("K", bound="_Kept")
L = TypeVar("L")
E = TypeVar("E", bound=Emulator[Any, Any])


class _Kept(msgspec.Struct, kw_only=True):
    production: bool = False
    port: int = 0


class _AppleKept(_Kept, kw_only=True):
    chain: str
    issuer_id: str
    key_id: str
    private_key: str
    connect_key_id: str = msgspec.field(default_factory=new_key_id)
    connect_private_key: str = msgspec.field(default_factory=new_private_key)
    bundle_id: str = "com.example.app"
    app_apple_id: int = msgspec.field(default_factory=lambda: 1_000_000_000 + secrets.randbelow(1_000_000_000))


class _GoogleKept(_Kept, kw_only=True):
    google_key: str
    account_key: str
    package_name: str = "com.example.app"
    push_audience: str = "https://latchkey.test/google-play"


class _StripeKept(_Kept, kw_only=True):
    keys: StripeKeys
    metadata_key: str = "app_user_id"


class _Books(msgspec.Struct, Generic[L]):
    clock: int
    life: L


class EmulatorFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.credentials = self.path / "credentials.json"
        self.root = self.path / "root.pem"
        self.control = self.path / "control.json"
        self._keys = self.path / "keys.json"
        self._books = self.path / "books.json"

    def prepare(self) -> EmulatorFolder:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / ".gitignore").write_text("*\n")
        # Whoever waits for this file must not read where the last run was.
        self.control.unlink(missing_ok=True)
        return self

    def last_port(self) -> int:
        port = read_json(self._keys).get("port", 0)
        return port if isinstance(port, int) else 0

    def remember_port(self, port: int) -> None:
        write_json(self._keys, {**read_json(self._keys), "port": port})

    def control_url(self) -> str:
        found = read_json(self.control).get("control_url")
        if not isinstance(found, str):
            raise Refusal(
                f"No store emulator runs in {self.path}. Start one with `latchkey emulate apple`, `google` or `stripe`."
            )
        return found

    def apple(
        self, *, bundle_id: str | None = None, app_apple_id: int | None = None, production: bool | None = None
    ) -> AppleEmulator:
        def new() -> _AppleKept:
            made = make_apple_keys()
            own = {name: getattr(made, name) for name in ("issuer_id", "key_id", "private_key")}
            return _AppleKept(chain=made.chain.to_pem(), **own)

        given = {"bundle_id": bundle_id, "app_apple_id": app_apple_id, "production": production}
        kept = self._account(_AppleKept, new, given)
        own = (kept.key_id, kept.private_key, kept.connect_key_id, kept.connect_private_key)
        keys = AppleKeys(AppleChain.from_pem(kept.chain), kept.issuer_id, *own)
        write_private(self.root, keys.chain.root_pem.encode(), mode=0o644)
        # Transaction ids of two stores should differ, or one purchase could be taken for the other.
        life, clock = self._read_books(AppleBooks(next_id=2_000_000_000_000_000 + secrets.randbelow(10**14) * 10))
        environment = "Production" if kept.production else "Sandbox"
        app = AppleApp(bundle_id=kept.bundle_id, app_apple_id=kept.app_apple_id, environment=environment)
        return self._keeping(AppleEmulator(keys, app, life, clock))

    def google(
        self, *, package_name: str | None = None, audience: str | None = None, production: bool | None = None
    ) -> GoogleEmulator:
        def new() -> _GoogleKept:
            made = make_google_keys()
            return _GoogleKept(google_key=made.google.private_pem, account_key=made.account.private_pem)

        given = {"package_name": package_name, "push_audience": audience, "production": production}
        kept = self._account(_GoogleKept, new, given)
        keys = GoogleKeys(restore_signing_key(kept.google_key), restore_signing_key(kept.account_key))
        life, clock = self._read_books(GoogleBooks(series=secrets.token_hex(16)))
        app = GoogleApp(package_name=kept.package_name, test=not kept.production, push_audience=kept.push_audience)
        return self._keeping(GoogleEmulator(keys, app, life, clock))

    def stripe(
        self, *, metadata_key: str | None = None, production: bool | None = None, rotate_secret: bool = False
    ) -> StripeEmulator:
        given = {"metadata_key": metadata_key, "production": production}
        kept = self._account(_StripeKept, lambda: _StripeKept(keys=make_stripe_keys()), given)
        # Test mode and live mode have keys of their own.
        if kept.keys.is_live != kept.production:
            kept.keys = make_stripe_keys(live=kept.production)
        if rotate_secret:
            before = kept.keys.webhook_secret
            kept.keys = replace(kept.keys, previous_webhook_secret=before, webhook_secret=new_webhook_secret())
        write_json(self._keys, kept)
        life, clock = self._read_books(StripeBooks(series=secrets.token_hex(16)))
        account = StripeAccount(metadata_key=kept.metadata_key)
        return self._keeping(StripeEmulator(kept.keys, account, replace(life, live=kept.production), clock))

    def _account(self, type: type[K], new: Callable[[], K], given: Mapping[str, Any]) -> K:
        """That of the store that was here before, or a new one. What is given replaces what was kept."""
        try:
            kept = msgspec.json.decode(self._keys.read_bytes(), type=type) if self._keys.exists() else new()
        except (OSError, msgspec.MsgspecError):
            raise Refusal(
                f"{self._keys} does not hold the keys of this kind of store. Name another folder with --folder."
            ) from None
        for name, value in given.items():
            if value not in (None, ""):
                setattr(kept, name, value)
        write_json(self._keys, kept)
        return kept

    def _read_books(self, new: L) -> tuple[L, EmulatorClock]:
        """What was kept, or `new`; and the clock where it stood, if that is later than now: a store's time never runs
        backwards."""
        books = _Books(0, new)
        try:
            books = msgspec.json.decode(self._books.read_bytes(), type=_Books[type(new)])  # type: ignore[misc]  # made at run time
        except FileNotFoundError:
            pass
        except msgspec.MsgspecError:
            raise Refusal(f"{self._books} is damaged. Delete it to start again, or name another --folder.") from None
        return books.life, EmulatorClock(starts_at=max(books.clock, real_now()))

    def _keeping(self, store: E) -> E:
        store.kept = lambda life: write_private(self._books, msgspec.json.encode(_Books(store.clock.now(), life)))
        return store
