"""The headers of every mail. Names of customers, projects and products may be part of a subject."""

from datetime import UTC, datetime
from email.header import Header
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from typing import Any

from latchkey.domain.formats import one_line
from latchkey.domain.instants import Ms


class _Subject:
    """The library's own class reads an encoded word (RFC 2047) in a text and writes what it stands for, line breaks
    too. This one takes a text as it is."""

    max_count = 1

    @staticmethod
    def parse(text: str, found: dict[str, Any]) -> None:
        found |= {"decoded": text, "parse_tree": None}

    def fold(self, *, policy: EmailPolicy) -> str:
        text = str(self)
        charset = "us-ascii" if text.isascii() and "=?" not in text else "utf-8"
        return f"Subject: {Header(text, charset, header_name='Subject').encode(linesep=policy.linesep)}{policy.linesep}"


_HEADERS = HeaderRegistry()
_HEADERS.map_to_type("subject", _Subject)  # type: ignore[arg-type]  # a mixin, as the library's own classes are
# A long address in a header stays in one piece: folded, it would be encoded, and mail programs would not find it.
_POLICY = SMTP.clone(max_line_length=998, cte_type="7bit", header_factory=_HEADERS)


def new_message(sender: str, to: str, subject: str, message_id: str, at: Ms) -> EmailMessage:
    """A mail without its text. Line breaks in addresses are refused by the library (ValueError)."""
    made = EmailMessage(policy=_POLICY)
    made["From"] = sender
    made["To"] = to
    made["Subject"] = one_line(subject)
    made["Date"] = datetime.fromtimestamp(at / 1000, UTC)
    made["Message-ID"] = message_id
    # So that absence notes and the like are not sent back.
    made["Auto-Submitted"] = "auto-generated"
    return made
