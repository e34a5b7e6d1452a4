"""Opens signed objects for one app: the signature first, then bundle id, app id and environment."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import msgspec

from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.apple.credentials import AppleCredentials
from latchkey.stores.apple.payloads import (
    AppTransaction,
    Data,
    NotificationPayload,
    RenewalInfo,
    Transaction,
    environment_of,
    shaped,
)
from latchkey.stores.apple.signatures import Signatures, is_jws, signatures_under
from latchkey.stores.errors import Malformed, Misdirected


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification with what was nested in it."""

    payload: NotificationPayload
    environment: Environment
    transaction: dict[str, Any] | None = field(repr=False)
    renewal: dict[str, Any] | None = field(repr=False)


class Opener:
    """Raises NotAuthentic for the signature, Misdirected for another app or environment, Malformed for the rest."""

    def __init__(self, credentials: AppleCredentials) -> None:
        self._bundle_id = credentials.bundle_id
        self._app_apple_id = credentials.app_apple_id
        self._signatures: Signatures = signatures_under(credentials.root_certificates)

    def notification(self, signed: str) -> Notice:
        payload = shaped(self._signatures.open(signed), NotificationPayload)
        about = payload.about
        if about is None:
            raise Misdirected("The notification names no app.")
        environment = self._addressed(about)
        transaction = renewal = None
        if about.signed_transaction_info is not None:
            transaction = self._signatures.open(about.signed_transaction_info)
            self._same_app(transaction, environment)
        if about.signed_renewal_info is not None:
            renewal = self._signatures.open(about.signed_renewal_info)
            self._same_environment(renewal, environment)
        return Notice(payload, environment, transaction, renewal)

    def transaction(self, signed: str) -> Transaction:
        opened = self._signatures.open(signed)
        self._same_app(opened, None)
        return shaped(opened, Transaction)

    def renewal(self, signed: str) -> RenewalInfo:
        opened = self._signatures.open(signed)
        self._same_environment(opened, None)
        return shaped(opened, RenewalInfo)

    def app_transaction(self, signed: str) -> Environment:
        told = shaped(self._signatures.open(signed), AppTransaction)
        return self._addressed(
            Data(bundle_id=told.bundle_id, environment=told.receipt_type, app_apple_id=told.app_apple_id)
        )

    def _addressed(self, about: Data) -> Environment:
        environment = _known(about.told_environment)
        if about.bundle_id != self._bundle_id:
            raise Misdirected(f"It is about the app {about.bundle_id}, not {self._bundle_id}.")
        # Apple leaves the app's id out in the sandbox. Where it is given it has to be right.
        app_apple_id = about.app_apple_id
        wanted = environment is Environment.PRODUCTION or app_apple_id is not None
        if wanted and app_apple_id != self._app_apple_id:
            raise Misdirected(f"It is about the app with the Apple ID {app_apple_id}, not {self._app_apple_id}.")
        return environment

    def _same_app(self, opened: dict[str, Any], environment: Environment | None) -> None:
        self._same_environment(opened, environment)
        if opened.get("bundleId") != self._bundle_id:
            raise Misdirected(f"It holds a transaction of another app than {self._bundle_id}.")

    def _same_environment(self, opened: dict[str, Any], environment: Environment | None) -> None:
        told = _known(opened.get("environment"))
        if environment is not None and told is not environment:
            raise Misdirected(f"It comes from {environment.lower()} and holds something from {told.lower()}.")


def _known(told: object) -> Environment:
    environment = environment_of(told) if isinstance(told, str) else None
    if environment is None:
        raise Misdirected("It comes neither from Apple's production environment nor from its sandbox.")
    return environment


def reopened(signed: str) -> Notice:
    """A notification from the journal: it was checked before it got there."""
    payload = shaped(_unchecked(signed), NotificationPayload)
    about = payload.about
    if about is None:
        raise Malformed("The notification names no app.")
    nested = (about.signed_transaction_info, about.signed_renewal_info)
    transaction, renewal = (None if one is None else _unchecked(one) for one in nested)
    return Notice(payload, _known(about.told_environment), transaction, renewal)


def _unchecked(signed: str) -> dict[str, Any]:
    if not is_jws(signed):
        raise Malformed("This is not a signed object in the form that Apple sends.")
    part = signed.split(".", 2)[1]
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=dict[str, Any])
    except (ValueError, RecursionError):
        raise Malformed("The signed object holds no JSON object.") from None
