"""Errors of the rules: a request that is not possible in the current state. The message is shown to the caller."""

from typing import TypeVar

Item = TypeVar("Item")


class Refusal(Exception):
    """The request is not possible in the current state."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class Invalid(Refusal):
    """The request is malformed, whatever the state."""


class NotFound(Refusal):
    """The named object does not exist."""


def found(item: Item | None, message: str, param: str | None = None) -> Item:
    """What was looked for, or NotFound with this message if it is None or False."""
    if item is None or item is False:
        raise NotFound(message, param=param)
    return item


class Conflict(Refusal):
    """The object to create already exists."""


class InUse(Refusal):
    """The object to delete is still in use."""


class OwnedByAnother(Refusal):
    """The purchase belongs to another customer."""


class StoreRefused(Refusal):
    """The store does not do what it was asked to do. Nothing was changed."""


class StoreUnreachable(Refusal):
    """The store cannot be asked now."""

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class NotReady(Refusal):
    """What was asked for is being prepared."""
