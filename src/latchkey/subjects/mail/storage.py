"""Mails that are to be sent."""

from msgspec import Struct

from latchkey.database.rows import executes, fetches_one
from latchkey.database.sql import query
from latchkey.domain.instants import Ms


class OutgoingMail(Struct, frozen=True):
    id: int
    kind: str
    email: str
    # After this time nobody tries any more.
    expires_at: Ms
    # With the one that is made now.
    attempts: int
    # What a mail to a customer is about, as JSON.
    about: str | None


add = executes(query("add_mail"))
# The mail that has waited longest. If the process dies, another one takes it after the second time.
claim = fetches_one(OutgoingMail, query("claim_mail"))
postpone = executes(query("postpone_mail"))
remove = executes(query("remove_mail"))
