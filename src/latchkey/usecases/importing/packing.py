"""Rows as bytes while they wait to be applied, with the place in the file that they came from."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import msgpack

from latchkey.domain.importing.row import CustomerRow, TransactionRow

T = TypeVar("T", TransactionRow, CustomerRow)
_TRANSACTION, _CUSTOMER = b"\0", b"\1"


class Placed(NamedTuple, Generic[T]):
    file: int
    line: int
    row: T


def _shaped(one: Field[Any], hint: Any) -> Any:
    """With its default: rows that a release before has staged lack the newest fields."""
    if one.default is not MISSING:
        return one.name, hint, one.default
    if one.default_factory is not MISSING:
        return one.name, hint, msgspec.field(default_factory=one.default_factory)
    return one.name, hint


class _Shape(Generic[T]):
    """One kind of row as an array: field names would be most of its size. What comes out is a struct with the fields
    and properties of the row: creating the dataclass takes five times as long."""

    def __init__(self, row: type[T]) -> None:
        names = tuple(one.name for one in fields(row))
        self._values = attrgetter(*names)
        hints = get_type_hints(row)
        shape = msgspec.defstruct(
            row.__name__,
            [_shaped(one, hints[one.name]) for one in fields(row)],
            namespace={name: one for name, one in vars(row).items() if isinstance(one, property)},
            array_like=True,
            frozen=True,
        )
        self._decode = msgpack.Decoder(tuple[int, int, shape]).decode  # type: ignore[valid-type]

    def pack(self, file: int, line: int, row: T) -> bytes:
        return _encode((file, line, self._values(row)))

    def unpack(self, packed: bytes) -> Placed[T]:
        placed: Any = self._decode(packed)
        return Placed(*placed)


_encode = msgpack.Encoder().encode
_TRANSACTIONS, _CUSTOMERS = _Shape(TransactionRow), _Shape(CustomerRow)


def pack(file: int, line: int, row: TransactionRow | CustomerRow) -> bytes:
    if isinstance(row, TransactionRow):
        return _TRANSACTION + _TRANSACTIONS.pack(file, line, row)
    return _CUSTOMER + _CUSTOMERS.pack(file, line, row)


def is_transaction(packed: bytes) -> bool:
    return packed[:1] == _TRANSACTION


def unpack_transaction(packed: bytes) -> Placed[TransactionRow]:
    return _TRANSACTIONS.unpack(packed[1:])


def unpack_customer(packed: bytes) -> Placed[CustomerRow]:
    return _CUSTOMERS.unpack(packed[1:])
