"""The timeline of a customer's subscriptions and grants. Pure geometry; `customer_life.html` draws it.

Horizontal positions are percentages: the picture is as wide as its page, and text keeps its size on a phone.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from latchkey.dashboard.texts import ZONE, day, instant
from latchkey.domain.formats import as_date
from latchkey.domain.instants import DAY, HOUR, LATEST, Ms
from latchkey.domain.time_zones import instant_of
from latchkey.subjects.customers.rules.subscription_timeline import PurchaseTimeline, SpanKind, TimelineSpan

WORDS: dict[SpanKind, str] = {
    SpanKind.TRIAL: "Trial",
    SpanKind.INTRO: "Introductory price",
    SpanKind.PAID: "Paid",
    SpanKind.GRANTED: "Granted",
    SpanKind.TEMPORARY: "Given while the store was away",
    SpanKind.GRACE: "Grace period",
    SpanKind.RETRY: "Payment failed, no access",
    SpanKind.PAUSE: "Paused",
    SpanKind.GAP: "Gap",
    SpanKind.REFUNDED: "Refunded",
}

# The height of one row with its title, bar and labels; and of the axis above the rows.
ROW, AXIS = 48, 26
# The most rows that are drawn; the table has all of them.
MOST_ROWS = 12
MOST_TICKS = 6
# The minimum width of a bar; narrower neighbours of one kind are drawn as one.
_THINNEST, _NARROW = 0.4, 0.9
_LONGEST_TITLE = 44
# How far the picture may reach into the future: enough for an annual subscription.
_AHEAD: Ms = 400 * DAY
_STEPS: tuple[Ms, ...] = (HOUR, 6 * HOUR, DAY, 2 * DAY, 7 * DAY)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600)


class TimelineBar(Struct, frozen=True):
    kind: SpanKind
    x: float
    width: float
    words: str
    # Continues beyond the picture.
    is_open: bool = False


class Flag(Struct, frozen=True):
    x: float
    words: str


class Lane(Struct, frozen=True):
    title: str
    store: str
    y: int
    bars: tuple[TimelineBar, ...]
    flags: tuple[Flag, ...]


class Tick(Struct, frozen=True):
    x: float
    words: str
    # Hidden on narrow screens.
    is_extra: bool


class TimelinePicture(Struct, frozen=True):
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    now: float
    height: int
    # A summary in one sentence, for screen readers.
    words: str
    kinds: tuple[SpanKind, ...]
    left_out: int


def picture(lives: Sequence[PurchaseTimeline], now: Ms) -> TimelinePicture | None:
    """None if there is nothing to draw."""
    if not lives:
        return None
    last = {life: max(LATEST if span.end is None else span.end for span in life.spans) for life in lives}
    shown = sorted(lives, key=last.__getitem__, reverse=True)[:MOST_ROWS]
    shown = [timeline for timeline in lives if timeline in shown]
    begin, end = window(shown, now)

    def x(at: Ms) -> float:
        return round(100 * (min(max(at, begin), end) - begin) / (end - begin), 2)

    lanes = []
    for number, life in enumerate(shown):
        spans = [span for span in life.spans if span.start < end]
        bars = [_bar(span, x(span.start), x(end if span.end is None else span.end), end) for span in spans]
        flags = tuple(
            Flag(x(mark.at), f"{mark.words}, {day(mark.at)}") for mark in life.marks if begin <= mark.at <= end
        )
        lanes.append(Lane(_short(life.title), life.store, AXIS + number * ROW, tuple(_joined(bars)), flags))
    ticks = ticks_between(begin, end)
    kinds = {span.kind for life in shown for span in life.spans}
    return TimelinePicture(
        tuple(lanes),
        tuple(Tick(x(at), words, number % 2 == 1) for number, (at, words) in enumerate(ticks)),
        x(now),
        AXIS + len(lanes) * ROW + 10,
        _sentence(shown, begin, end, now),
        tuple(kind for kind in SpanKind if kind in kinds),
        len(lives) - len(shown),
    )


def window(lives: Sequence[PurchaseTimeline], now: Ms) -> tuple[Ms, Ms]:
    """From the first start to the last end. The future is cut off so that the past has enough room."""
    spans = [span for life in lives for span in life.spans]
    begin = min([now, *(span.start for span in spans)])
    ends = [span.end for span in spans if span.end is not None and span.end <= now + _AHEAD]
    end = max([now, *ends])
    if any(span.end is None or span.end > end for span in spans):
        end = max(end, now + max(30 * DAY, (now - begin) // 4))
    edge = max((end - begin) // 50, HOUR // 4)
    return begin - edge, end + edge


def ticks_between(begin: Ms, end: Ms) -> list[tuple[Ms, str]]:
    """As many round instants as fit, each with its label."""
    for step in _STEPS:
        if (end - begin) / step <= MOST_TICKS:
            form = "%-d %b %H:%M" if step < DAY else "%-d %b"
            first = -(-begin // step) * step
            return [(at, as_date(at, ZONE.get()).strftime(form)) for at in range(first, end, step)]
    for months in _MONTHS:
        found = [
            (at, moment.strftime("%Y" if months >= 12 else "%b %Y")) for at, moment in _month_starts(begin, end, months)
        ]
        if len(found) <= MOST_TICKS:
            return found
    return []


def _month_starts(begin: Ms, end: Ms, months: int) -> list[tuple[Ms, datetime]]:
    moment = as_date(begin, ZONE.get())
    first = (moment.year * 12 + moment.month - 1) // months * months
    starts = (datetime(number // 12, number % 12 + 1, 1) for number in range(first, 9999 * 12, months))  # noqa: DTZ001
    dated = ((instant_of(start, ZONE.get()), start) for start in starts)
    return [(at, start) for at, start in takewhile(lambda one: one[0] < end, dated) if at >= begin]


def _bar(span: TimelineSpan, left: float, right: float, end: Ms) -> TimelineBar:
    until = "for ever" if span.end is None or span.end >= LATEST else f"to {instant(span.end)}"
    words = f"{WORDS[span.kind]}: {span.product_id}, {instant(span.start)} {until}"
    width = round(max(right - left, _THINNEST), 2)
    return TimelineBar(span.kind, left, width, words, span.end is None or span.end > end)


def _joined(bars: Sequence[TimelineBar]) -> list[TimelineBar]:
    found: list[TimelineBar] = []
    many = 1
    for bar in bars:
        last = found[-1] if found else None
        narrow = last is not None and bar.width < _NARROW and (last.width < _NARROW or many > 1)
        if last is not None and narrow and last.kind is bar.kind and bar.x - (last.x + last.width) < _THINNEST:
            many += 1
            width = round(bar.x + bar.width - last.x, 2)
            found[-1] = replace(last, width=width, words=f"{WORDS[bar.kind]}: {many} periods", is_open=bar.is_open)
        else:
            many = 1
            found.append(bar)
    return found


def _sentence(lives: Sequence[PurchaseTimeline], begin: Ms, end: Ms, now: Ms) -> str:
    count = f"{len(lives)} subscriptions or grants" if len(lives) != 1 else "One subscription or grant"
    return f"{count} between {day(begin)} and {day(end)}; now is {instant(now)}. The table below says the same."


def _short(title: str) -> str:
    return title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…"
