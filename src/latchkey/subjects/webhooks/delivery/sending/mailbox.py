"""Destinations that are a mailbox: one attempt is one mail, sent the way in which invitations are.

The text of an event contains what customers chose, such as their id. So a mail goes only to members of the project and
to domains that the operator has allowed, is plain text, and is one of few in an hour.
"""

import asyncio
import time
from email.message import EmailMessage

from msgspec import json

from latchkey.database.pool import Database
from latchkey.domain.instants import HOUR, Ms
from latchkey.domain.refusal import Refusal
from latchkey.settings import Settings
from latchkey.subjects.accounts.usecases import sessions, team
from latchkey.subjects.mail.rules import new_message
from latchkey.subjects.mail.usecases import Mail, NotSentError, mail_of, stamp
from latchkey.subjects.webhooks.delivery.destination import Outgoing
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.storage.lanes import AttemptResult

SCHEME = "mailto:"
# Mails with events to one address, in an hour. More are not sent: nobody reads them, and a mail server that sends
# thousands is soon on a list of spammers.
MOST = 60
# Connections to the mail server. Each takes a thread.
_AT_ONCE = 4
# SMTP's own code for a mail that was taken.
_TAKEN = 250
_PARAM = "destination.settings.to"


class Mailbox:
    def __init__(self, mail: Mail, domains: tuple[str, ...], timeout_ms: int) -> None:
        self._mail = mail
        self._domains = frozenset(domain.lower() for domain in domains)
        self._timeout_ms = timeout_ms
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def check(self, project_id: str, email: str) -> None:
        """Whether a project may mail this address. Asked again with every mail: a member may have left."""
        if email.partition("@")[2] in self._domains:
            return
        if all(member.account.email != email for member in await team.members(self._mail.database, project_id)):
            raise Refusal(
                "Mails go to members of this project, and to domains that whoever runs Latchkey allows with "
                "LATCHKEY_MAIL_DOMAINS.",
                param=_PARAM,
            )

    async def send(self, webhook: Webhook, message_id: str, outgoing: Outgoing, at: Ms) -> AttemptResult:
        """Sends it once. Never raises, whatever a mail server does."""
        began = time.monotonic()
        to, error, note, counted = outgoing.url.removeprefix(SCHEME), None, "", False
        made = self._message(webhook, message_id, to, json.decode(outgoing.body, type=dict[str, str]), at)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000), self._free:
                await self.check(webhook.project_id, to)
                counted = await self._counted(to, at)
                if not counted:
                    note = f"Not sent: {to} has got {MOST} mails within an hour."
                else:
                    await asyncio.to_thread(self._mail.way.send, made, f"{stamp(at)}-{webhook.id}-{message_id}")
        except (NotSentError, Refusal) as refused:
            error = str(refused)
        except TimeoutError:
            error = f"timed out after {self._timeout_ms / 1000:g} s"
        if error and counted:
            # Otherwise the tries of an outage would use up the hour, and what waits would not be sent afterwards.
            await sessions.forget_one_failure(self._mail.database, [_counted_as(to)], at)
        took_ms = round((time.monotonic() - began) * 1000)
        status = None if error or note else _TAKEN
        shown = json.encode({name: str(value) for name, value in made.items() if not name.startswith("Content-")})
        return AttemptResult(at, took_ms, status, error, shown, response_body=note.encode())

    async def _counted(self, email: str, at: Ms) -> bool:
        """Counts a mail before it is sent, so that concurrent ones are not too many. False: there are enough."""
        async with self._mail.database.transaction() as connection:
            if (await sessions.failures_of(connection, _counted_as(email), at - HOUR)).count >= MOST:
                return False
            await sessions.note_failures(connection, [_counted_as(email)], at)
        return True

    def _message(self, webhook: Webhook, message_id: str, to: str, body: dict[str, str], at: Ms) -> EmailMessage:
        # The id is the same with every attempt, so that a mail program shows one of them.
        id = f"<{message_id}.{webhook.id}@latchkey.invalid>"
        made = new_message(self._mail.sender, to, body["subject"], id, at)
        page = f"{self._mail.public_url}/dashboard/projects/{webhook.project_id}/webhooks/{webhook.id}"
        made.set_content(f"{body['text']}\n\n-- \nSent by Latchkey for each event. To change or to stop it: {page}\n")
        return made


def _counted_as(email: str) -> str:
    return f"events to {email}"


def mailbox_of(database: Database, settings: Settings) -> Mailbox | None:
    """None: this service sends no mail."""
    mail = mail_of(database, settings)
    return None if mail is None else Mailbox(mail, settings.mail_domains, settings.webhook_timeout_ms)
