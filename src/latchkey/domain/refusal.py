"""Errors of the rules: a request that is not possible in the current state. The message is shown to the caller."""

from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

Item = TypeVar("Item")
Arguments = ParamSpec("Arguments")


class Refusal(Exception):
    """The request is not possible in the current state."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        # What else is wrong with the same request, about other fields.
        self.others: tuple[Refusal, ...] = ()

    @property
    def all(self) -> tuple["Refusal", ...]:
        return (self, *self.others)


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


class CodedRefusal(Refusal):
    """One that the SDKs know by its code."""

    def __init__(self, problem: int, message: str, obfuscated_email: str | None = None) -> None:
        super().__init__(message)
        self.problem = problem
        # Where a mail about it was sent.
        self.obfuscated_email = obfuscated_email


class Checks:
    """Several checks of one request. What they refuse is raised together at the end of the block, as the first refusal
    with the others in it; one for each field.

        with Checks() as check:
            name = check(checked_name, given.name)
            price = check(price_of, given.price)
    """

    def __init__(self) -> None:
        self._refusals: dict[object, Refusal] = {}

    def __call__(self, check: Callable[Arguments, Item], /, *given: Arguments.args, **named: Arguments.kwargs) -> Item:
        """What the check returns. After a refusal None, which is nobody's business: the block does not end well."""
        try:
            return check(*given, **named)
        except Refusal as refusal:
            self.add(refusal)
            return None  # type: ignore[return-value]

    def add(self, refusal: Refusal) -> None:
        for one in refusal.all:
            self._refusals.setdefault(one.param or one, one)

    def __enter__(self) -> "Checks":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Refusal):
            self.add(error)
        if self._refusals and (error is None or isinstance(error, Refusal)):
            first, *others = self._refusals.values()
            first.others = tuple(others)
            raise first from None
