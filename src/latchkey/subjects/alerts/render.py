"""Messages as mails and as Slack shows them, and a chart as a picture: mail programs show PNG, and nothing else."""

import struct
import zlib
from collections.abc import Sequence
from email.message import EmailMessage
from html import escape

from msgspec import Struct, json

from latchkey.domain.formats import one_line
from latchkey.domain.instants import Ms
from latchkey.subjects.alerts.rules import AlertNotice
from latchkey.subjects.mail.rules import new_message


class Chart(Struct, frozen=True):
    title: str
    # From which day to which, and the highest value.
    caption: str
    values: tuple[float, ...]


class AlertLetter(Struct, frozen=True, kw_only=True):
    subject: str
    words: str
    # Title, value and change of numbers.
    figures: tuple[tuple[str, str, str], ...] = ()
    chart: Chart | None = None
    # An address and its words.
    link: tuple[str, str] = ("", "")


def letter(notice: AlertNotice, project: str, project_url: str) -> AlertLetter:
    """Of a notice without numbers. `project_url`: the project's page; empty if it is not known."""
    problem, link = notice.problem, (project_url, "Open the project" if project_url else "")
    if problem is None:
        words = "This is how alerts and reports reach you. There is nothing to do."
        return AlertLetter(subject=f"{project}: a test", words=words, link=link)
    if problem.link and project_url:
        link = f"{project_url}/{problem.path}", problem.link
    if notice.what == "ended":
        return AlertLetter(subject=f"{project}, over: {problem.title}", words=f"Over: {problem.title}", link=link)
    words = f"{problem.title} {problem.words}"
    return AlertLetter(subject=f"{project}: {problem.title}", words=words, link=link)


def mail(
    letter: AlertLetter, *, sender: str, to: str, message_id: str, at: Ms, stop: str, settings: str
) -> EmailMessage:
    """`stop` is the address that ends all messages like this one, `settings` the page to choose them."""
    made = new_message(sender, to, letter.subject, message_id, at)
    # RFC 8058: mail programs show a button, and post to this address.
    made["List-Unsubscribe"] = f"<{stop}>"
    made["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    address, button = letter.link
    figures = "".join(f"{title}: {value} {change}\n" for title, value, change in letter.figures)
    made.set_content(
        f"{letter.words}\n\n{figures}{address}\n\n-- \nStop these mails: {stop}\nChoose what you get: {settings}\n"
    )
    rows = "".join(
        f'<tr><td style="padding: 4px 24px 4px 0">{escape(title)}</td><td align="right"><b>{escape(value)}</b></td>'
        f'<td style="padding-left: 24px; color: #59636e">{escape(change)}</td></tr>'
        for title, value, change in letter.figures
    )
    chart = letter.chart
    picture = (
        f'<p style="margin-bottom: 4px"><b>{escape(chart.title)}</b></p><img src="cid:chart" width="560" height="140" '
        f'alt="{sparkline(chart.values)}"><p style="margin-top: 4px; color: #59636e">{escape(chart.caption)}</p>'
        if chart is not None
        else ""
    )
    made.add_alternative(
        '<!doctype html><html lang="en"><body style="font-family: sans-serif; line-height: 1.5; color: #1b1f24">'
        f"<p>{escape(letter.words)}</p><table>{rows}</table>{picture}"
        f'<p><a href="{escape(address)}">{escape(button)}</a></p><p style="color: #59636e"><a href="{escape(stop)}">'
        f'Stop these mails</a> · <a href="{escape(settings)}">Choose what you get</a></p></body></html>\n',
        subtype="html",
    )
    if chart is not None:
        _, shown = made.iter_parts()
        shown.add_related(bars(chart.values), "image", "png", cid="<chart>")
    return made


def slack(letter: AlertLetter) -> bytes:
    """An incoming webhook cannot take a picture: the chart is a line of blocks."""
    address, words = letter.link
    lines = [letter.words, *(f"{title}: *{value}* {change}" for title, value, change in letter.figures)]
    if letter.chart is not None:
        lines.append(f"{letter.chart.title}: {sparkline(letter.chart.values)}")
    text = "\n".join(escape(line, quote=False) for line in (f"*{one_line(letter.subject)}*", *lines))
    text += f"\n<{address}|{words}>" if address else ""
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text[:2900]}}
    return json.encode({"text": escape(one_line(letter.subject), quote=False), "blocks": [section]})


_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    top = max(values, default=0) or 1
    return "".join(_BLOCKS[round(max(value, 0) / top * (len(_BLOCKS) - 1))] for value in values)


# White, the bars, and the line they stand on.
_PALETTE = bytes.fromhex("ffffff1f5fbf8c959f")


def bars(values: Sequence[float], width: int = 1120, height: int = 280) -> bytes:
    """A PNG. What is negative hangs below the line."""
    top, bottom = max([0, *values]), min([0, *values])
    scale = (height - 2) / ((top - bottom) or 1)
    zero, step = round(top * scale), width / max(len(values), 1)
    rows = [bytearray(width) for _ in range(height)]
    rows[zero][:] = b"\x02" * width
    for place, value in enumerate(values):
        left, right = round((place + 0.15) * step), round((place + 0.85) * step)
        end = round((top - value) * scale)
        for y in range(min(zero, end), max(zero, end)):
            rows[y][left:right] = b"\x01" * (right - left)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + row for row in rows), 9)
    parts = ((b"IHDR", header), (b"PLTE", _PALETTE), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
