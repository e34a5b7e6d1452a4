"""When a problem is told and when its end is, what is an unusual number, and when a report is due."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.formats import as_date
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.problem import ProblemKind, ProjectProblem

TITLES: dict[ProblemKind, str] = {
    ProblemKind.WEBHOOK: "A webhook or a destination fails",
    ProblemKind.STORE: "A store refuses our credentials",
    ProblemKind.NOTIFICATIONS: "Notifications of a store stop coming, or cannot be processed",
    ProblemKind.CERTIFICATE: "The certificate of this service is about to end",
    ProblemKind.REVENUE: "Revenue or refunds are out of their usual range",
}
# How long a problem lasts before it is told, and how long it is gone before its end is: a receiver that restarts, or
# that fails every other time, is no news.
PATIENCE: Ms = 10 * MINUTE
CALM: Ms = 30 * MINUTE


class Alert(Struct, frozen=True):
    """A problem, as it was known after the last look."""

    problem: ProjectProblem
    since: Ms
    told_at: Ms | None = None
    # Set while the problem is gone and its end is not told yet.
    gone_since: Ms | None = None
    # The accounts to which its beginning was told.
    told: tuple[str, ...] = ()


class LookResult(NamedTuple):
    kept: list[Alert]
    began: list[Alert]
    ended: list[Alert]


def after_look(
    known: Mapping[str, Alert],
    found: Iterable[ProjectProblem],
    now: Ms,
    who: Mapping[ProblemKind, tuple[str, ...]],
) -> LookResult:
    """Alerts by the problem's id. Those that are not kept are forgotten. `began` are among the kept ones. `who`: the
    accounts that want to be told of each kind."""
    kept, began, ended = [], [], []
    seen = {problem.id: problem for problem in found}
    for id, problem in seen.items():
        before = known.get(id) or Alert(problem, now)
        alert = replace(before, problem=problem, gone_since=None)
        if alert.told_at is None and now - alert.since >= PATIENCE:
            alert = replace(alert, told_at=now, told=who.get(problem.kind, ()))
            began.append(alert)
        kept.append(alert)
    for id, alert in known.items():
        if id in seen or alert.told_at is None:
            continue
        gone_since = alert.gone_since if alert.gone_since is not None else now
        if now - gone_since >= CALM:
            ended.append(alert)
        else:
            kept.append(replace(alert, gone_since=gone_since))
    return LookResult(kept, began, ended)


# A day is compared with the same day of these weeks before it.
WEEKS = 8
# Days whose numbers are read: the one that is judged, and the weeks before it.
DAYS = 7 * WEEKS + 1
# A project with fewer payments on a usual day is left alone: ten payments more or less are chance.
FEWEST_PAYMENTS = 20
# How many spreads from the median are unusual, and which share of the median in any case.
SPREADS, SHARE = 4.0, 0.5
# Of a normal distribution, the median deviation times this is the standard deviation.
_NORMAL = 1.4826
# How long the payments of a day are waited for.
SETTLED_AFTER: Ms = 2 * HOUR


class UsualRange(NamedTuple):
    low: float
    high: float


def end_of_settled(now: Ms) -> Ms:
    """The last moment of the last day, by UTC, whose numbers have settled."""
    return (now - SETTLED_AFTER) // DAY * DAY - 1


def usual_range(days: Sequence[float]) -> UsualRange:
    """Of the last of these days, by the same weekday of the weeks before. It never reaches down to a tenth of the
    median: a day with almost nothing is unusual, however much the others differ."""
    earlier = days[-8::-7]
    middle = median(earlier)
    spread = _NORMAL * median(abs(day - middle) for day in earlier)
    margin = max(SPREADS * spread, SHARE * middle)
    return UsualRange(max(middle - margin, middle / 10), middle + margin)


def unusual(
    payments: Sequence[float], revenue: Sequence[float], refunds: Sequence[float]
) -> dict[Literal["revenue", "refunds"], UsualRange]:
    """Which of these numbers of the last day are out of their usual range, and the range. Of refunds only many are a
    problem, and only if they are a tenth of a usual day's revenue."""
    if len(revenue) < DAYS or median(payments[-8::-7]) < FEWEST_PAYMENTS:
        return {}
    found: dict[Literal["revenue", "refunds"], UsualRange] = {}
    usual, usual_refunds = usual_range(revenue), usual_range(refunds)
    if not usual.low <= revenue[-1] <= usual.high:
        found["revenue"] = usual
    if refunds[-1] > max(usual_refunds.high, median(revenue[-8::-7]) / 10):
        found["refunds"] = UsualRange(0, usual_refunds.high)
    return found


Report = Literal["never", "daily", "weekly"]
REPORTS: dict[Report, str] = {"never": "No report", "daily": "Every day", "weekly": "Every Monday"}
# UTC.
REPORT_HOUR = 8


def next_report(report: Report, now: Ms) -> Ms | None:
    """The first time after now."""
    if report == "never":
        return None
    at = as_date(now).replace(hour=REPORT_HOUR, minute=0, second=0)
    # Mondays are 0.
    days = -at.weekday() % 7 if report == "weekly" else 0
    first = round((at + timedelta(days=days)).timestamp() * 1000)
    return first if first > now else first + (7 * DAY if report == "weekly" else DAY)


class AlertNotice(Struct, frozen=True):
    """What a message is about. A report's numbers are read when it is sent."""

    what: Literal["began", "ended", "test", "daily", "weekly"]
    problem: ProjectProblem | None = None

    @property
    def lasts(self) -> Ms:
        """How long it is tried to be sent. The numbers of yesterday are of no use tomorrow."""
        return 3 * DAY if self.what in ("began", "ended") else 12 * HOUR
