"""Opens signed objects for one app: the signature first, then bundle id, app id and environment."""

from dataclasses import dataclass, field

from latchkey.domain.purchases.purchase import Environment
from latchkey.stores.apple.credentials import AppleCredentials
from latchkey.stores.apple.payloads import (
    Addressed,
    AppleTransaction,
    AppTransaction,
    Data,
    NotificationPayload,
    P,
    RenewalInfo,
    environment_of,
    shaped,
)
from latchkey.stores.apple.signatures import Signatures, payload_of, signatures_under
from latchkey.stores.errors import Malformed, Misdirected


@dataclass(frozen=True, slots=True)
class OpenedNotification:
    """A notification with what was nested in it, still as JSON."""

    payload: NotificationPayload
    environment: Environment
    transaction: bytes | None = field(repr=False)
    renewal: bytes | None = field(repr=False)


class Opener:
    """Raises NotAuthentic for the signature, Misdirected for another app or environment, Malformed for the rest."""

    def __init__(self, credentials: AppleCredentials) -> None:
        self._bundle_id = credentials.bundle_id
        self._app_apple_id = credentials.app_apple_id
        self._signatures: Signatures = signatures_under(credentials.root_certificates)

    def notification(self, signed: str) -> OpenedNotification:
        payload = shaped(self._signatures.open(signed), NotificationPayload)
        about = payload.about
        if about is None:
            raise Misdirected("The notification names no app.")
        environment = self._addressed(about)
        transaction = renewal = None
        if about.signed_transaction_info is not None:
            transaction = self._signatures.open(about.signed_transaction_info)
            told = shaped(transaction, Addressed)
            self._same_app(told.bundle_id)
            _same_environment(told.environment, environment)
        if about.signed_renewal_info is not None:
            renewal = self._signatures.open(about.signed_renewal_info)
            _same_environment(shaped(renewal, Addressed).environment, environment)
        return OpenedNotification(payload, environment, transaction, renewal)

    def transaction(self, signed: str) -> AppleTransaction:
        transaction = self._own(signed, AppleTransaction)
        _known(transaction.environment)
        return transaction

    def renewal(self, signed: str) -> RenewalInfo:
        renewal = shaped(self._signatures.open(signed), RenewalInfo)
        _known(renewal.environment)
        return renewal

    def app_transaction(self, signed: str) -> AppTransaction:
        told = self._own(signed, AppTransaction)
        self._addressed(Data(bundle_id=told.bundle_id, environment=told.receipt_type, app_apple_id=told.app_apple_id))
        return told

    def _own(self, signed: str, type: type[P]) -> P:
        """The app is looked at first: what Apple signed for another app is Misdirected, whatever its form."""
        payload = self._signatures.open(signed)
        if (bundle_id := shaped(payload, Addressed).bundle_id) is not None:
            self._same_app(bundle_id)
        return shaped(payload, type)

    def _addressed(self, about: Data) -> Environment:
        environment = _known(about.told_environment)
        self._same_app(about.bundle_id)
        # Apple leaves the app's id out in the sandbox. Where it is given it has to be right.
        app_apple_id = about.app_apple_id
        wanted = environment is Environment.PRODUCTION or app_apple_id is not None
        if wanted and app_apple_id != self._app_apple_id:
            raise Misdirected(f"It is about the app with the Apple ID {app_apple_id}, not {self._app_apple_id}.")
        return environment

    def _same_app(self, bundle_id: str | None) -> None:
        if bundle_id != self._bundle_id:
            raise Misdirected(f"It is about another app than {self._bundle_id}.")


def _same_environment(told: str | None, environment: Environment) -> None:
    if _known(told) is not environment:
        raise Misdirected(f"It comes from {environment.lower()} and holds something that does not.")


def _known(told: str | None) -> Environment:
    environment = environment_of(told or "")
    if environment is None:
        # Xcode signs without Apple. Any other name may be a new one of Apple's.
        kind = Misdirected if told in ("Xcode", "LocalTesting") else Malformed
        raise kind("It comes neither from Apple's production environment nor from its sandbox.")
    return environment


def reopened(signed: str) -> OpenedNotification:
    """A notification from the journal: it was checked before it got there."""
    payload = shaped(payload_of(signed), NotificationPayload)
    about = payload.about
    if about is None:
        raise Malformed("The notification names no app.")
    nested = (about.signed_transaction_info, about.signed_renewal_info)
    transaction, renewal = (None if one is None else payload_of(one) for one in nested)
    return OpenedNotification(payload, _known(about.told_environment), transaction, renewal)
