"""A mail: its headers, its text, and a chart as a picture: mail programs show PNG, and nothing else. Names of
customers, projects and products may be part of it."""

import struct
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from email.header import Header
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP, EmailPolicy
from importlib.resources import files
from typing import Any

from jinja2 import Template
from msgspec import Struct

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


class OutgoingMail(Struct, frozen=True):
    id: int
    kind: str
    # None: of the member.
    email: str | None
    # After this time nobody tries any more.
    expires_at: Ms
    # With the one that is made now.
    attempts: int
    # As JSON.
    about: str | None
    # The member of a project whom it tells something.
    account_id: str | None
    project_id: str | None


class MailChart(Struct, frozen=True):
    title: str
    # From which day to which, and the highest value.
    caption: str
    values: tuple[float, ...]


class MailText(Struct, frozen=True, kw_only=True):
    """What somebody is told, whatever the way."""

    subject: str
    words: str
    # Title, value and change of numbers.
    figures: tuple[tuple[str, str, str], ...] = ()
    chart: MailChart | None = None
    # An address and its words.
    link: tuple[str, str] = ("", "")
    ends: str = ""


_HTML = Template((files(__package__) / "letter.html").read_text(encoding="utf-8"), autoescape=True, trim_blocks=True)


def written(
    letter: MailText, sender: str, to: str, message_id: str, at: Ms, *, stop: str = "", settings: str = ""
) -> EmailMessage:
    """`stop` is the address that ends all mails like this one, `settings` the page to choose them."""
    made = new_message(sender, to, letter.subject, message_id, at)
    (link, button), ends = letter.link, letter.ends
    if stop:
        # RFC 8058: mail programs show a button, and post to this address.
        made["List-Unsubscribe"] = f"<{stop}>"
        made["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        ends = f"-- \nStop these mails: {stop}\nChoose what you get: {settings}"
    figures = "".join(f"{title}: {value} {change}\n" for title, value, change in letter.figures)
    made.set_content(f"{letter.words}\n\n{figures}{link}\n\n{ends}\n")
    html = _HTML.render(letter=letter, link=link, button=button, stop=stop, settings=settings, sparkline=sparkline)
    made.add_alternative(html, subtype="html")
    if letter.chart is not None:
        _, shown = made.iter_parts()
        shown.add_related(bars(letter.chart.values), "image", "png", cid="<chart>")
    return made


_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    top = max(values, default=0) or 1
    return "".join(_BLOCKS[round(max(value, 0) / top * (len(_BLOCKS) - 1))] for value in values)


# White, the bars, and the line they stand on.
_PALETTE = bytes.fromhex("ffffff1f5fbf8c959f")


def bars(values: Sequence[float], width: int = 1120, height: int = 280) -> bytes:
    """A PNG. What is negative hangs below the line."""
    top, bottom = max([0, *values]), min([0, *values])
    extent = (top - bottom) or 1
    zero, step = round(top / extent * (height - 2)), width / max(len(values), 1)
    rows = [bytearray(width) for _ in range(height)]
    rows[zero][:] = b"\x02" * width
    for place, value in enumerate(values):
        left, right = round((place + 0.15) * step), round((place + 0.85) * step)
        end = round((top - value) / extent * (height - 2))
        for y in range(min(zero, end), max(zero, end)):
            rows[y][left:right] = b"\x01" * (right - left)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + row for row in rows), 9)
    parts = ((b"IHDR", header), (b"PLTE", _PALETTE), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
