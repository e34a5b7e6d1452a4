"""Virtual currencies, and crediting or debiting a customer by hand."""

import secrets

from latchkey.dashboard.links import isolated
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.domain.refusal import Checks, Invalid
from latchkey.domain.user_id import problem_with
from latchkey.subjects.currencies import usecases

pages = Pages()

ON_A_PAGE = 100


@pages.get("/currencies")
async def list_currencies(visit: Visit) -> Response:
    found = await visit.run(usecases.list_currencies, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "currencies", name="code")
    return visit.page("currencies.html", currencies=shown, more=more)


@pages.get("/new-currency", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return visit.page("currency_new.html")


@pages.post("/new-currency", Needs.MANAGE, "currency.created", offer_new)
async def create(visit: Visit) -> Response:
    form = visit.form
    visit.subject = code = form.text("code")
    made = await visit.run(usecases.create_currency, code, form.text("name"), form.text("description"), now=visit.now)
    return await visit.to(visit.path("currencies", made.code), f"{made.code} was created.")


@pages.get("/currencies/{code}")
async def show_currency(visit: Visit, code: str) -> Response:
    currency = await visit.run(usecases.load_currency, code)
    return visit.page("currency.html", currency=currency, key=secrets.token_urlsafe(12))


@pages.post("/currencies/{code}", Needs.MANAGE, "currency.updated", show_currency)
async def update(visit: Visit, code: str) -> Response:
    form = visit.form
    await visit.run(usecases.update_currency, code, name=form.text("name"), description=form.text("description"))
    return await visit.to(visit.path("currencies", code), "Saved.")


@pages.post("/currencies/{code}/move", Needs.MANAGE, "currency.moved", show_currency)
async def move(visit: Visit, code: str) -> Response:
    form = visit.form
    with Checks() as check:
        who = check(form.needed, "customer")
        if who and (wrong := problem_with(who)) is not None:
            check.add(Invalid(wrong, param="customer"))
        amount = check(form.number, "amount", low=1, high=MAX_BALANCE)
    signed = amount if form.choice("direction", ("credit", "debit")) == "credit" else -amount
    visit.audit(customer=who, amount=signed)
    # The form contains an idempotency key: sent twice, it is done once.
    key = f"dashboard:{form.needed('key')[:100]}"
    done = await usecases.adjust(visit.services.changes, visit.project_id, who, {code: signed}, key)
    balance = done.customer.balances.get(code, 0)
    return await visit.to(visit.path("currencies", code), f"{isolated(who)} now has {balance:,} {code}.")


@pages.confirmed("/currencies/{code}/delete", Needs.MANAGE, "currency.deleted", show_currency)
async def delete(visit: Visit, code: str) -> Response:
    await visit.run(usecases.delete_currency, code)
    return await visit.to(visit.path("currencies"), f"{code} was deleted.")
