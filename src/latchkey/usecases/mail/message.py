"""What our mails say. Nothing in them is written by users but the address of the recipient: nobody can send text of
their own to others through this service."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from enum import StrEnum

from markupsafe import escape

from latchkey.domain.instants import DAY, HOUR, Ms


class Kind(StrEnum):
    # Somebody was added to a team, and has no password yet.
    INVITATION = "invitation"
    # Somebody asked for a new password.
    RESET = "reset"
    # The password of an account was changed.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Words:
    subject: str
    begins: str
    button: str
    ends: str
    # How long the link works. 0: it is no link for one person.
    lasts: Ms


WORDS: dict[Kind, Words] = {
    Kind.INVITATION: Words(
        "Your invitation to Latchkey",
        "You were added to a team on Latchkey. Choose a password to sign in:",
        "Choose a password",
        "The link works once, for seven days. If you do not know what this is about, ignore this mail.",
        7 * DAY,
    ),
    Kind.RESET: Words(
        "Choose a new password for Latchkey",
        "Somebody, probably you, asked for a new password for your account on Latchkey. Choose it here:",
        "Choose a new password",
        "The link works once, for one hour. If it was not you, ignore this mail: your password stays as it is.",
        1 * HOUR,
    ),
    Kind.CHANGED: Words(
        "Your password for Latchkey was changed",
        "The password of your account on Latchkey was changed. If it was you, there is nothing to do. If it was not, "
        "somebody else can sign in as you. Ask for a new password now:",
        "Ask for a new password",
        "Then look at your sessions on the account's page, and tell an owner of your projects.",
        0,
    ),
}

_HTML = """\
<!doctype html>
<html lang="en"><body style="font-family: sans-serif; line-height: 1.5; color: #1b1f24">
<p>{begins}</p>
<p><a href="{link}" style="display: inline-block; padding: 10px 18px; background: #1f5fbf; color: #ffffff; \
text-decoration: none; border-radius: 6px">{button}</a></p>
<p>Or copy this address into your browser:<br>{link}</p>
<p>{ends}</p>
</body></html>
"""


def message(kind: Kind, sender: str, to: str, link: str, message_id: str) -> EmailMessage:
    """Line breaks in a header are refused by the library (ValueError), whatever they come from."""
    words = WORDS[kind]
    made = EmailMessage(policy=SMTP)
    made["From"] = sender
    made["To"] = to
    made["Subject"] = words.subject
    made["Message-ID"] = message_id
    # So that absence notes and the like are not sent back.
    made["Auto-Submitted"] = "auto-generated"
    # 7bit: the text is ASCII, and a link in one piece can be copied from the file too.
    made.set_content(f"{words.begins}\n\n{link}\n\n{words.ends}\n", cte="7bit")
    shown = {"begins": words.begins, "button": words.button, "ends": words.ends}
    made.add_alternative(_HTML.format(link=escape(link), **shown), subtype="html", cte="7bit")
    return made
