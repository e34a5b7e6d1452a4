"""Mails and other messages that are to be sent."""

from latchkey.database.rows import executes, fetches_one
from latchkey.database.sql import query
from latchkey.subjects.mail.rules import OutgoingMail

# Kind, address, now, when nobody tries any more, what it is about, account and project.
add = executes(query("add_mail"))
# The mail that is next. If the process dies, another one takes it after the second time.
claim = fetches_one(OutgoingMail, query("claim_mail"))
postpone = executes(query("postpone_mail"))
remove = executes(query("remove_mail"))
