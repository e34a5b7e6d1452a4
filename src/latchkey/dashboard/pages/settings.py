"""Settings of the project, its connection details, and the first steps with it."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.snippets import curl, first_purchase
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.usecases.access import projects

pages = Pages()

BEHAVIORS = {
    RestoreBehavior.TRANSFER: "It moves to whoever restores it, and leaves the customer who had it.",
    RestoreBehavior.KEEP: "It stays where it is. Whoever else restores it is refused.",
    RestoreBehavior.TRANSFER_IF_NO_ACTIVE_SUBSCRIPTIONS: (
        "It moves to whoever restores it, unless its owner has a subscription that is running."
    ),
}
TEST_STORES: dict[projects.TestStore, str] = {
    "open": (
        "Test purchases can be made: by the API, on test clocks, and by every app with a public key that begins with "
        "test_. They give real access, are always marked as sandbox, and cost nothing. Close it before you ship."
    ),
    "closed": "No test purchase can be made, and none is renewed. What was bought before runs out.",
}


@pages.get("/settings")
async def show_settings(visit: Visit) -> Response:
    assert visit.project is not None
    host = visit.request.headers.get("host", "localhost")
    base = f"https://{host}"
    hook = {"name": "My server", "url": "https://app.example.com/webhooks/latchkey"}
    return visit.page(
        "settings.html",
        behaviors=BEHAVIORS,
        name=visit.form.text("name") or visit.project.name,
        behavior=visit.form.text("restore_behavior") or visit.project.restore_behavior,
        test_stores=TEST_STORES,
        test_store=visit.form.text("test_store") or visit.project.test_store,
        base=base,
        read=curl(visit, "/v1/subscribers/alice"),
        buy=await first_purchase(visit),
        hook=curl(visit, "integrations/webhooks", hook),
        user=f"latchkey user create them@example.com --project {visit.project_id} --role viewer",
    )


@pages.post("/settings", Needs.MANAGE, "project.changed", show_settings)
async def change_settings(visit: Visit) -> Response:
    assert visit.project is not None
    visit.audit(visit.project_id)
    behavior = RestoreBehavior(visit.form.choice("restore_behavior", RestoreBehavior))
    chosen = visit.form.choice("test_store", TEST_STORES)
    test_store = next(one for one in TEST_STORES if one == chosen)
    changed = await projects.update_project(
        visit.database,
        visit.project_id,
        name=visit.form.text("name"),
        restore_behavior=behavior,
        test_store=test_store,
    )
    before = {name: getattr(visit.project, name) for name in ("name", "restore_behavior", "test_store")}
    after = {name: getattr(changed, name) for name in before}
    visit.detail.update({name: [before[name], after[name]] for name in before if before[name] != after[name]})
    return await visit.to(visit.path("settings"), "Saved.")
