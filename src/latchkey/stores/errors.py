"""What can go wrong between a store and Latchkey.

StoreError
├── NotAuthentic        the sender or the signature cannot be trusted: 401, nothing is stored
├── Misdirected         authentic, but for another app, audience or environment: 403, nothing is stored
├── Malformed           not what this store sends: 400, nothing is stored
├── InvalidReceipt      certainly not the proof of a purchase: the phone may drop it
├── ActionRefused       the store does not do what it was asked to do: nothing was changed
├── StoreDown           the store gave no answer that can be used: try again later
│   └── NoAnswer            it cannot be reached, or answered 5xx, 429 or that a quota is used up
└── CredentialsRefused  the store refuses our credentials: an operator has to act, then try again
"""

from typing import TypeVar

import msgspec

from latchkey.domain.instants import Ms

T = TypeVar("T")


class StoreError(Exception):
    """`message` is for operators and callers: it never holds a token, a key or a payload."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotAuthentic(StoreError):
    pass


class Misdirected(StoreError):
    pass


class Malformed(StoreError):
    pass


class InvalidReceipt(StoreError):
    pass


class ActionRefused(StoreError):
    pass


class StoreDown(StoreError):
    def __init__(self, message: str, retry_after_ms: Ms | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class NoAnswer(StoreDown):
    """The only error for which temporary access is given: whatever the store answers, it vouches for no purchase."""


class CredentialsRefused(StoreError):
    pass


def read_json(given: bytes | str, type: type[T], otherwise: StoreError) -> T:
    """What somebody else has sent. Whatever is wrong with its form is this error."""
    try:
        return msgspec.json.decode(given, type=type)
    except (ValueError, RecursionError):
        raise otherwise from None
