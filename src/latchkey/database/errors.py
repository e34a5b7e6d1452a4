"""The errors that storage raises.

StorageError
├── OutageError                 the database cannot do this now; a retry may succeed later
│   ├── MovedError                  another transaction moved the row to another partition; a retry may succeed now
│   ├── NodeAwayError               a node of a distributed database does not answer; its projects cannot be used now
│   └── DatabaseUnreachableError    no server answers at the database's address
│       ├── NoPrimaryError              servers answer, but none of them may be written to
│       └── WrongAddressError           the address is malformed, or its user, password or database is refused
├── StatementRefusedError       the database refused a statement, and would refuse it again
├── DatabaseBusyError           another process holds a lock we need
├── InvalidValueError           the database cannot store a value, such as a NUL in a text
├── CollisionError              two transactions changed the same rows; a retry may succeed now
├── OutdatedError               what a change is based on has changed since it was read; nothing was written
├── SchemaError                 the database is older or newer than the code, or a migration that ran was changed
├── DistributionError           rows cannot be spread over nodes, or copied into another database, as these are set up
├── RestoredError               the database was restored from a backup, and `after-restore` has not run
├── StateVersionError           a customer's stored state has a version that this code cannot read
├── QueryNotNamedError          no .sql file defines the requested query
└── EmbeddedServerError         the embedded server cannot be used
"""

from collections.abc import Sequence
from typing import Any


class StorageError(Exception):
    """Something is wrong with the database, and the message says what to do next."""


class OutageError(StorageError):
    pass


class MovedError(OutageError):
    pass


class NodeAwayError(OutageError):
    def __init__(self, words: str, rows: Sequence[Any] = (), places: Sequence[int] | None = None) -> None:
        super().__init__(words)
        # Of a list of which other nodes have their part: what these answered, and the places of the rest. None: all.
        self.rows = rows
        self.places = places


class DatabaseUnreachableError(OutageError):
    pass


class NoPrimaryError(DatabaseUnreachableError):
    pass


class WrongAddressError(DatabaseUnreachableError):
    pass


class StatementRefusedError(StorageError):
    pass


class DatabaseBusyError(StorageError):
    pass


class InvalidValueError(StorageError):
    pass


class CollisionError(StorageError):
    pass


class OutdatedError(StorageError):
    pass


class SchemaError(StorageError):
    pass


class DistributionError(StorageError):
    pass


class RestoredError(StorageError):
    pass


class StateVersionError(StorageError):
    pass


class QueryNotNamedError(StorageError):
    pass


class EmbeddedServerError(StorageError):
    pass
