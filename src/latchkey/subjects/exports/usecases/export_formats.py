"""Rows as CSV, JSON Lines or Parquet. Each file is complete in itself, with its header or schema. Nothing is rounded,
and nothing depends on the machine."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, get_args

from msgspec import Raw, json
from msgspec.structs import astuple

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.money.amounts import MICROS
from latchkey.subjects.exports.wire import SCHEMA_VERSION, Column, Format, Row, RowKind, columns

if TYPE_CHECKING:
    import pyarrow as pa


Written = Callable[[Any], Any]


def instant(at: Ms) -> str:
    """2026-11-16T03:12:59.123Z"""
    day, rest = divmod(at, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds, rest = divmod(rest, SECOND)
    return f"{_day(day)}T{hours:02}:{minutes:02}:{seconds:02}.{rest:03}Z"


@lru_cache(maxsize=10_000)
def _day(days: int) -> str:
    return datetime.fromtimestamp(days * DAY / SECOND, UTC).strftime("%Y-%m-%d")


def money(micros: int) -> str:
    """9.99, 1500 or -0.000001: as few decimals as the amount needs."""
    units, rest = divmod(abs(micros), MICROS)
    sign = "-" if micros < 0 else ""
    return f"{sign}{units}.{rest:06}".rstrip("0") if rest else f"{sign}{units}"


# Other kinds are written by `str`.
_CSV: dict[RowKind, Written] = {
    RowKind.BOOLEAN: lambda value: "true" if value else "false",
    RowKind.INSTANT: instant,
    RowKind.MONEY: money,
    RowKind.FRACTION: repr,
    RowKind.LIST: lambda value: json.encode(value).decode(),
}
# Kinds that are not named here stay as they are.
_JSON: dict[RowKind, Written] = {
    RowKind.INSTANT: instant,
    RowKind.MONEY: money,
    RowKind.JSON: lambda value: Raw(value.encode()),
}


FORMATS: tuple[Format, ...] = get_args(Format)

_FINEST_RATE = Decimal(1).scaleb(-18)
# Rows of a Parquet row group: enough to compress well, few enough for little memory.
ROW_GROUP = 20_000


def open_part(path: Path, format: Format, what: str, row: type[Row]) -> PartFile:
    return _FILES[format](path, what, row)


class PartFile(ABC):
    def __init__(self, path: Path, what: str, row: type[Row]) -> None:
        self.path, self.rows = path, 0
        self._what, self._columns = what, columns(row)
        self._file: BinaryIO = path.open("wb")

    @abstractmethod
    def write(self, rows: list[Row]) -> None: ...

    def size(self) -> int:
        """Bytes so far, about."""
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class CsvFile(PartFile):
    """RFC 4180: UTF-8, a header, CRLF. An empty cell is no value. Cells are exact, also those that begin with `=`."""

    def __init__(self, path: Path, what: str, row: type[Row]) -> None:
        super().__init__(path, what, row)
        self._text = TextIOWrapper(self._file, encoding="utf-8", newline="", write_through=True)
        self._csv = csv.writer(self._text)
        self._writers = [_CSV.get(column.kind, str) for column in self._columns]
        self._csv.writerow([column.name for column in self._columns])

    def write(self, rows: list[Row]) -> None:
        self._csv.writerows(
            [
                "" if value is None else written(value)
                for value, written in zip(astuple(row), self._writers, strict=True)
            ]
            for row in rows
        )

    def close(self) -> None:
        self._text.close()


class JsonLinesFile(PartFile):
    """One JSON object on each line. Every column is there, null where there is no value."""

    def write(self, rows: list[Row]) -> None:
        writers = [(column.name, _JSON.get(column.kind)) for column in self._columns]
        objects = [
            {
                name: value if written is None or value is None else written(value)
                for value, (name, written) in zip(astuple(row), writers, strict=True)
            }
            for row in rows
        ]
        self._file.write(json.Encoder().encode_lines(objects))


class ParquetFile(PartFile):
    def __init__(self, path: Path, what: str, row: type[Row]) -> None:
        # Imported here: it takes a quarter of a second, and most commands and processes never need it.
        import pyarrow.parquet as pq

        super().__init__(path, what, row)
        self._schema = parquet_schema(what, row)
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        self._waiting: list[Row] = []

    def write(self, rows: list[Row]) -> None:
        self._waiting.extend(rows)
        while len(self._waiting) >= ROW_GROUP:
            self._flush(self._waiting[:ROW_GROUP])
            del self._waiting[:ROW_GROUP]

    def _flush(self, rows: list[Row]) -> None:
        import pyarrow as pa

        values = zip(*map(astuple, rows), strict=True)
        arrays = [
            _array(column, items, field.type)
            for column, items, field in zip(self._columns, values, self._schema, strict=True)
        ]
        self._writer.write_table(pa.table(arrays, schema=self._schema))

    def close(self) -> None:
        if self._waiting:
            self._flush(self._waiting)
            self._waiting = []
        self._writer.close()
        super().close()


_FILES: dict[Format, type[PartFile]] = {"csv": CsvFile, "jsonl": JsonLinesFile, "parquet": ParquetFile}


def parquet_schema(what: str, row: type[Row]) -> pa.Schema:
    import pyarrow as pa

    types: dict[RowKind, pa.DataType] = {
        RowKind.TEXT: pa.string(),
        RowKind.INTEGER: pa.int64(),
        RowKind.BOOLEAN: pa.bool_(),
        RowKind.INSTANT: pa.timestamp("ms", tz="UTC"),
        RowKind.DATE: pa.date32(),
        RowKind.MONEY: pa.decimal128(20, 6),
        RowKind.RATE: pa.decimal128(38, 18),
        RowKind.FRACTION: pa.float64(),
        RowKind.LIST: pa.list_(pa.string()),
        RowKind.JSON: pa.string(),
    }
    fields = [pa.field(column.name, types[column.kind], nullable=column.nullable) for column in columns(row)]
    return pa.schema(fields, metadata={"latchkey.schema_version": str(SCHEMA_VERSION), "latchkey.what": what})


def _array(column: Column, values: Iterable[Any], type: pa.DataType) -> pa.Array:
    import pyarrow as pa

    match column.kind:
        case RowKind.MONEY:
            # The same digits with the point moved. Making a Decimal of each amount would take most of the time.
            return pa.array(values, pa.int64()).cast(pa.decimal128(20, 0)).view(type)
        case RowKind.RATE:
            return pa.array(
                [None if value is None else Decimal(value).quantize(_FINEST_RATE) for value in values], type
            )
        case RowKind.DATE:
            return pa.array(values, pa.string()).cast(type)
        case _:
            return pa.array(values, type)
