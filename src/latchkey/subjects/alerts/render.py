"""Messages of alerts, and as Slack shows them."""

from html import escape

from msgspec import json

from latchkey.domain.formats import one_line
from latchkey.subjects.alerts.rules import AlertNotice
from latchkey.subjects.mail.rules import MailText, sparkline


def letter(notice: AlertNotice, project: str, project_url: str) -> MailText:
    """Of a notice without numbers. `project_url`: the project's page; empty if it is not known."""
    problem, link = notice.problem, (project_url, "Open the project" if project_url else "")
    if problem is None:
        words = "This is how alerts and reports reach you. There is nothing to do."
        return MailText(subject=f"{project}: a test", words=words, link=link)
    if problem.link and project_url:
        link = f"{project_url}/{problem.path}", problem.link
    if notice.what == "ended":
        return MailText(subject=f"{project}, over: {problem.title}", words=f"Over: {problem.title}", link=link)
    words = f"{problem.title} {problem.words}"
    return MailText(subject=f"{project}: {problem.title}", words=words, link=link)


def slack(letter: MailText) -> bytes:
    """An incoming webhook cannot take a picture: the chart is a line of blocks."""
    address, words = letter.link
    lines = [letter.words, *(f"{title}: *{value}* {change}" for title, value, change in letter.figures)]
    if letter.chart is not None:
        lines.append(f"{letter.chart.title}: {sparkline(letter.chart.values)}")
    text = "\n".join(escape(line, quote=False) for line in (f"*{one_line(letter.subject)}*", *lines))
    text += f"\n<{address}|{words}>" if address else ""
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text[:2900]}}
    return json.encode({"text": escape(one_line(letter.subject), quote=False), "blocks": [section]})
