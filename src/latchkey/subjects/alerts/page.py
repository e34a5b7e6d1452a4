"""A member's own alerts and reports of a project, and the page behind the link to stop them."""

from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.problem import ProblemKind
from latchkey.subjects.alerts.rules import REPORTS, TITLES
from latchkey.subjects.mail.usecases import NO_MAIL
from latchkey.subjects.projects.usecases import load_project

pages = Pages()

WAYS = {"mail": "By mail", "slack": "In Slack"}


@pages.get("/alerts")
async def show(visit: Visit) -> Response:
    saved, mail = await visit.services.alerts.subscription(visit.project_id, visit.account.id), visit.services.mail
    return visit.page(
        "alerts.html",
        kinds=TITLES.items(),
        chosen=saved.kinds,
        reports=REPORTS.items(),
        report=saved.report,
        ways=WAYS.items(),
        way="slack" if saved.slack or mail is None else "mail",
        has_slack=saved.slack is not None,
        gets_something=bool(saved.kinds or saved.report != "never"),
        no_mail="" if mail is not None else NO_MAIL,
        folder=mail.folder if mail is not None else None,
    )


@pages.post("/alerts", Needs.READ, "alerts.changed", show)
async def save(visit: Visit) -> Response:
    form = visit.form
    kinds = [ProblemKind(kind) for kind in form.all("kinds") if kind in TITLES]
    report, way = form.choice("report", REPORTS), form.choice("way", WAYS)
    visit.audit("your alerts", kinds=kinds, report=report, way=way)
    chosen = kinds, report, way, form.text("slack"), visit.now
    await visit.services.alerts.subscribe(visit.project_id, visit.account.id, *chosen)
    nothing = not kinds and report == "never"
    return await visit.to(visit.path("alerts"), "You get nothing." if nothing else "Saved.")


@pages.post("/alerts/test", Needs.READ, "alerts.tested", show)
async def send_test(visit: Visit) -> Response:
    await visit.services.alerts.send_test(visit.project_id, visit.account.id, visit.now)
    return await visit.to(visit.path("alerts"), "A test message is on its way.")


@pages.get("/alerts/stop/{token}", Needs.NOTHING)
async def ask_to_stop(visit: Visit, token: str) -> Response:
    _, project_id = visit.services.alerts.stopped_by(token)
    return visit.page("alerts_stop.html", stopped=False, name=(await load_project(visit.database, project_id)).name)


@pages.post("/alerts/stop/{token}", Needs.NOTHING, "alerts.stopped", one_click=True)
async def stop(visit: Visit, token: str) -> Response:
    """Also the mail program's own button (RFC 8058)."""
    account_id, project_id = visit.services.alerts.stopped_by(token)
    visit.audit(f"alerts of {project_id}", account=account_id)
    await visit.services.alerts.stop(token)
    return visit.page("alerts_stop.html", stopped=True, name=(await load_project(visit.database, project_id)).name)
