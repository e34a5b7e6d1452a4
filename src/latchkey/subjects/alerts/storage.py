"""What members want to be told of, and the problems that are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import json

from latchkey.database import rows
from latchkey.database.pool import Connection, Executor
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.alerts.rules import Alert, Report

_ALERT = json.Decoder(Alert)


@dataclass(frozen=True, slots=True)
class AlertSubscription:
    """What a member of a project wants to be told of."""

    account_id: str
    project_id: str
    kinds: tuple[str, ...] = ()
    report: Report = "never"
    # Sealed. None: by mail.
    slack: bytes | None = field(default=None, repr=False)
    report_at: Ms | None = None
    # Of the account, and the project's name: only where one is found.
    email: str = ""
    project: str = ""


find = rows.fetches_one(AlertSubscription, query("find_alert_subscription"))
lock = rows.returns_row(query("lock_alert_subscription"))
test_waits = rows.returns_row(query("find_waiting_test"))
# Account, project, kinds, report, the sealed address, when the next report is due.
save = rows.executes(query("save_alert_subscription"))
remove = rows.returns_row(query("remove_alert_subscription"))
subscribers = rows.fetches_all(AlertSubscription, query("alert_subscribers"))
watch = rows.executes(query("watch_project"))
# Now, and when the next look is due, which is the token of this one.
claim_watch = rows.finds_value(str, query("claim_alert_watch"))
lock_watch = rows.returns_row(query("lock_alert_watch"))
remove_watch = rows.executes(query("remove_alert_watch"))
claim_report = rows.fetches_one(AlertSubscription, query("claim_report"))
postpone_report = rows.executes(query("postpone_report"))


async def known_alerts(connection: Executor, project_id: str) -> dict[str, Alert]:
    found = [_ALERT.decode(row["state"]) for row in await connection.fetch(query("known_alerts"), project_id)]
    return {alert.problem.id: alert for alert in found}


async def replace_alerts(connection: Connection, project_id: str, alerts: Sequence[Alert]) -> None:
    ids, states = [alert.problem.id for alert in alerts], [json.encode(alert).decode() for alert in alerts]
    await connection.execute(query("replace_alerts"), project_id, ids, states)
