"""Notes about a customer, for the team. They are erased with the customer; a merge keeps those of both."""

from __future__ import annotations

from uuid import uuid4

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.storage.customer_lists import notes
from latchkey.storage.customer_lists.notes import Note as Note
from latchkey.storage.database import Database

LONGEST_NOTE = 4000
MOST_NOTES = 200


async def notes_of(database: Database, project_id: str, customer_key: int) -> list[Note]:
    """Newest first."""
    async with database.acquire() as connection:
        return await notes.of_customer(connection, project_id, customer_key, MOST_NOTES)


async def add_note(
    database: Database, project_id: str, customer_key: int, account_id: str, author: str, text: str, now: Ms
) -> str:
    """Returns the note's id."""
    text, id = checked(text), f"note_{uuid4().hex[:24]}"
    async with database.transaction() as connection:
        if len(await notes.of_customer(connection, project_id, customer_key, MOST_NOTES)) >= MOST_NOTES:
            raise Refusal(f"A customer has at most {MOST_NOTES} notes. Delete one first.")
        if not await notes.add(connection, project_id, customer_key, id, account_id, author, text, now):
            raise NotFound("There is no such customer any more.")
    return id


async def change_note(
    database: Database, project_id: str, customer_key: int, id: str, account_id: str, text: str, now: Ms
) -> None:
    """Only its author may."""
    async with database.acquire() as connection:
        if not await notes.change(connection, project_id, customer_key, id, account_id, checked(text), now):
            raise NotFound("There is no such note of yours.", param="note_id")


async def delete_note(database: Database, project_id: str, customer_key: int, id: str, account_id: str) -> None:
    """Only its author may."""
    async with database.acquire() as connection:
        if not await notes.delete(connection, project_id, customer_key, id, account_id):
            raise NotFound("There is no such note of yours.", param="note_id")


def checked(text: str) -> str:
    """Plain text. Browsers send line breaks as CR LF."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not text:
        raise Invalid("A note needs some text.", param="text")
    if len(text) > LONGEST_NOTE:
        raise Invalid(f"A note has at most {LONGEST_NOTE:,} characters.", param="text")
    if any((char < " " and char not in "\n\t") or char == "\x7f" for char in text):
        raise Invalid("A note is plain text, without control characters.", param="text")
    return text
