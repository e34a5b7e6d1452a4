"""Rows as bytes while they wait to be applied, with the place in the file that they came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import msgpack

from latchkey.domain.importing.row import CustomerRow, TransactionRow

T = TypeVar("T", TransactionRow, CustomerRow)


class Placed(NamedTuple, Generic[T]):
    file: int
    line: int
    row: T


class _Shape(Generic[T]):
    """One kind of row as an array: field names would be most of its size."""

    def __init__(self, mark: int, row: type[T]) -> None:
        self._mark = mark
        self._row: Callable[..., T] = row
        self._names = tuple(one.name for one in fields(row))
        self._values = attrgetter(*self._names)
        hints = get_type_hints(row)
        shape = msgspec.defstruct(row.__name__, [(name, hints[name]) for name in self._names], array_like=True)
        self._decode = msgpack.Decoder(tuple[int, int, int, shape]).decode  # type: ignore[valid-type]

    def pack(self, file: int, line: int, row: T) -> bytes:
        return bytes([self._mark]) + _encode((self._mark, file, line, self._values(row)))

    def unpack(self, packed: bytes) -> Placed[T]:
        _, file, line, shape = self._decode(packed[1:])
        values: Any = self._values(shape)
        return Placed(file, line, self._row(**dict(zip(self._names, values, strict=True))))


_encode = msgpack.Encoder().encode
_TRANSACTIONS, _CUSTOMERS = _Shape(0, TransactionRow), _Shape(1, CustomerRow)


def pack(file: int, line: int, row: TransactionRow | CustomerRow) -> bytes:
    if isinstance(row, TransactionRow):
        return _TRANSACTIONS.pack(file, line, row)
    return _CUSTOMERS.pack(file, line, row)


def unpack(packed: bytes) -> Placed[TransactionRow] | Placed[CustomerRow]:
    return _TRANSACTIONS.unpack(packed) if packed[0] == 0 else _CUSTOMERS.unpack(packed)
