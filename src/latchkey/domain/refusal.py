"""A rule's answer when what was asked makes no sense in the present state. Its message is shown to the caller."""

from __future__ import annotations


class Refusal(Exception):
    """The request makes no sense in the present state."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class Invalid(Refusal):
    """What was sent cannot be used, whatever the state."""


class NotFound(Refusal):
    """What was named does not exist."""


class Conflict(Refusal):
    """What was to be made exists already."""


class KeyReused(Refusal):
    """An idempotency key was used for something else before."""


class InUse(Refusal):
    """What was to go is still needed by something else."""


class OwnedByAnother(Refusal):
    """The purchase belongs to another customer."""


class InsufficientBalance(Refusal):
    """A debit would take the balance below zero."""
