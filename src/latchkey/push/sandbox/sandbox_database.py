"""Storage of the sandbox: devices, notifications, and which are not delivered yet. One SQLite file."""

import sqlite3
import uuid
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, json

from latchkey.push.sandbox.protocol import NewNotification, NewPlayer, PlayerChange, in_language

# How long providers keep notifications for a phone that is switched off.
KEPT_MS = 3 * 24 * 3600 * 1000

_TABLES = """
create table if not exists players (
  id text primary key, identifier text unique, device_type integer not null, language text not null,
  notification_types integer not null, created_at integer not null, last_active integer not null
);
create table if not exists notifications (
  number integer primary key autoincrement, id text not null unique, same_as text unique, external_id text,
  headings text not null, contents text not null, data text, url text, invalid text not null,
  recipients integer not null, sent_at integer not null
);
create table if not exists arrivals (
  number integer not null, player_id text not null, arrived_at integer, primary key (number, player_id)
);
create index if not exists under_way on arrivals (player_id) where arrived_at is null;
"""


class AcceptedNotification(Struct, frozen=True):
    """`reached` are the devices to notify; empty for a call that was processed before."""

    id: str
    recipients: int
    invalid: list[str]
    external_id: str | None
    reached: tuple[str, ...] = ()


class SandboxDatabase:
    def __init__(self, path: str = ":memory:") -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.row_factory = sqlite3.Row
        # The sandbox may lose its last second in a power cut; it does not wait for the disk at every push.
        self._database.executescript(f"pragma journal_mode = wal; pragma synchronous = off; {_TABLES}")

    def close(self) -> None:
        self._database.close()

    def register(self, new: NewPlayer, now: int) -> str:
        id = str(uuid.uuid4())
        known = self._database.execute(
            """insert into players (id, identifier, device_type, language, notification_types, created_at, last_active)
               values (?, ?, ?, ?, ?, ?, ?)
               on conflict (identifier) do update set device_type = excluded.device_type, language = excluded.language,
                 notification_types = excluded.notification_types, last_active = excluded.last_active
               returning id""",
            (id, new.identifier or None, new.device_type, new.language, new.notification_types, now, now),
        ).fetchone()
        return str(known["id"])

    def identifier_of(self, id: str) -> tuple[bool, str | None]:
        """Whether the device exists, and the secret it registered with."""
        row = self._database.execute("select identifier from players where id = ?", (id,)).fetchone()
        return row is not None, row["identifier"] if row else None

    def change(self, id: str, change: PlayerChange, now: int) -> None:
        self._database.execute(
            """update players set language = coalesce(?, language), last_active = ?,
                 notification_types = coalesce(?, notification_types) where id = ?""",
            (change.language, now, change.notification_types, id),
        )

    def forget(self, id: str) -> None:
        self._database.execute("delete from arrivals where player_id = ?", (id,))
        self._database.execute("delete from players where id = ?", (id,))

    def accept(self, new: NewNotification, now: int) -> AcceptedNotification | None:
        """Stores it for all its devices; None if there are none."""
        same = "select * from notifications where same_as = ?"
        if new.same_as is not None and (row := self._database.execute(same, (new.same_as,)).fetchone()) is not None:
            return AcceptedNotification(row["id"], row["recipients"], json.decode(row["invalid"]), row["external_id"])
        known = {
            row["id"]: row["notification_types"] > 0
            for row in self._database.execute(
                "select id, notification_types from players where id in (select value from json_each(?))",
                (json.encode(new.player_ids).decode(),),
            )
        }
        reached = tuple(id for id in new.player_ids if known.get(id))
        if not reached:
            return None
        invalid = [id for id in new.player_ids if id not in known]
        id = str(uuid.uuid4())
        self._database.execute("begin immediate")
        try:
            number = self._database.execute(
                """insert into notifications
                     (id, same_as, external_id, headings, contents, data, url, invalid, recipients, sent_at)
                   values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    id, new.same_as, new.external_id, _text(new.headings), _text(new.contents),
                    _text(new.data), new.url, _text(invalid), len(reached), now,
                ),
            ).lastrowid  # fmt: skip
            self._database.executemany(
                "insert into arrivals (number, player_id) values (?, ?)", ((number, player_id) for player_id in reached)
            )
            self._database.execute("commit")
        except BaseException:
            self._database.execute("rollback")
            raise
        return AcceptedNotification(id, len(reached), invalid, new.external_id, reached)

    def pending(self, player_id: str, now: int) -> list[tuple[int, dict[str, Any]]]:
        """By their numbers, as the device gets them."""
        return [
            (
                row["number"],
                {
                    "id": row["id"],
                    "heading": in_language(json.decode(row["headings"]), row["language"]),
                    "content": in_language(json.decode(row["contents"]), row["language"]),
                    "data": json.decode(row["data"]) if row["data"] else None,
                    "url": row["url"],
                    "sent_at": row["sent_at"],
                },
            )
            for row in self._database.execute(
                """select n.*, p.language from arrivals a join notifications n using (number)
                   join players p on p.id = a.player_id
                   where a.player_id = ? and a.arrived_at is null and n.sent_at > ? order by n.number""",
                (player_id, now - KEPT_MS),
            )
        ]

    def mark_arrived(self, player_id: str, number: int, now: int) -> None:
        self._database.execute(
            "update arrivals set arrived_at = ? where player_id = ? and number = ?", (now, player_id, number)
        )

    def players(self, limit: int, offset: int) -> tuple[int, list[dict[str, Any]]]:
        rows = self._page("players", "created_at desc, rowid desc", limit, offset)
        return self._count("players"), [_player(row) for row in rows]

    def player(self, id: str) -> dict[str, Any] | None:
        row = self._database.execute("select * from players where id = ?", (id,)).fetchone()
        return _player(row) if row else None

    def notifications(self, limit: int, offset: int) -> tuple[int, list[dict[str, Any]]]:
        rows = self._page("notifications", "number desc", limit, offset)
        return self._count("notifications"), [self._shown(row) for row in rows]

    def notification(self, id: str) -> dict[str, Any] | None:
        row = self._database.execute("select * from notifications where id = ?", (id,)).fetchone()
        return self._shown(row) if row else None

    def _shown(self, row: sqlite3.Row) -> dict[str, Any]:
        arrivals = self._database.execute(
            "select player_id, arrived_at from arrivals where number = ? order by rowid", (row["number"],)
        ).fetchall()
        return {
            "id": row["id"],
            "external_id": row["external_id"],
            "headings": json.decode(row["headings"]),
            "contents": json.decode(row["contents"]),
            "data": json.decode(row["data"]) if row["data"] else None,
            "url": row["url"],
            "include_player_ids": [arrival["player_id"] for arrival in arrivals],
            "successful": row["recipients"],
            "received": sum(arrival["arrived_at"] is not None for arrival in arrivals),
            "queued_at": row["sent_at"] // 1000,
        }

    def _page(self, table: str, order: str, limit: int, offset: int) -> Iterable[sqlite3.Row]:
        return self._database.execute(
            f"select * from {table} order by {order} limit ? offset ?",  # noqa: S608 - both are constants of this module
            (limit, offset),
        )

    def _count(self, table: str) -> int:
        row = self._database.execute(f"select count(*) from {table}").fetchone()  # noqa: S608 - a constant of this module
        return int(row[0])


def _text(value: Any) -> str | None:
    return None if value is None else json.encode(value).decode()


def _player(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "device_type": row["device_type"],
        "language": row["language"],
        "notification_types": row["notification_types"],
        "invalid_identifier": row["notification_types"] <= 0,
        "created_at": row["created_at"] // 1000,
        "last_active": row["last_active"] // 1000,
    }
