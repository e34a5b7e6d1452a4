"""Experiments: variants with weights, how many customers each has, and enrolling one."""

from urllib.parse import urlencode

from latchkey.dashboard.form import Form, counts_of, place_of
from latchkey.dashboard.form import count_fields as written
from latchkey.dashboard.links import isolated
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Checks, Invalid
from latchkey.domain.user_id import problem_with
from latchkey.subjects.experiments import usecases
from latchkey.subjects.offerings import usecases as offerings

pages = Pages()

ON_A_PAGE = 50
# Rows of the form for a new experiment; the script adds more.
ROWS = 4


@pages.get("/experiments")
async def list_experiments(visit: Visit) -> Response:
    found = await visit.run(usecases.list_experiments, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "experiments")
    return visit.page("experiments.html", experiments=shown, more=more)


@pages.get("/experiments/new", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    typed = [number for number in range(1, usecases.MOST + 1) if visit.form.text(f"variant-{number}")]
    rows = range(1, max([ROWS, *typed]) + 1)
    return visit.page("experiment_new.html", rows=rows, most=usecases.MOST, offerings=await _offerings(visit))


@pages.post("/experiments/new", Needs.MANAGE, "experiment.created", offer_new)
async def create(visit: Visit) -> Response:
    visit.subject = name = visit.form.text("name")
    with Checks() as check:
        check(checked_name, name)
        variants = check(_variants, visit.form)
    made = await visit.run(usecases.create_experiment, name, variants, visit.now)
    visit.audit(made.id, name=made.name, variants={variant.id: variant.weight for variant in made.variants})
    return await visit.to(visit.path("experiments", made.id), "The experiment runs. Enrol customers to put them in it.")


@pages.get("/experiments/{experiment_id}")
async def show_experiment(visit: Visit, experiment_id: str) -> Response:
    experiment = await visit.run(usecases.load_experiment, experiment_id)
    so_far = usecases.Enrolled(counts_of(visit.query, "enrolled"), place_of(visit.query))
    enrolled = await visit.run(usecases.count_enrolled, experiment_id, visit.now, so_far)
    query = urlencode(list(written(enrolled.place, enrolled=enrolled.variants)))
    return visit.page(
        "experiment.html",
        experiment=experiment,
        weights=sum(variant.weight for variant in experiment.variants),
        enrolled=enrolled,
        more=None if enrolled.place.done else f"{visit.path('experiments', experiment_id)}?{query}",
        offerings=await _offerings(visit),
    )


@pages.post("/experiments/{experiment_id}/enroll", Needs.MANAGE, "experiment.enrolled", show_experiment)
async def enroll(visit: Visit, experiment_id: str) -> Response:
    who = visit.form.text("app_user_id")
    visit.audit(customer=who)
    if problem := problem_with(who):
        raise Invalid(problem, param="app_user_id")
    done = await usecases.enroll_customer(visit.services.changes, visit.project_id, experiment_id, who)
    variant = done.variant_id
    visit.audit(variant=variant)
    return await visit.to(
        visit.path("experiments", experiment_id), f"{isolated(who)} is in {variant}, and stays there."
    )


@pages.post("/experiments/{experiment_id}/offerings", Needs.MANAGE, "experiment.updated", show_experiment)
async def set_offerings(visit: Visit, experiment_id: str) -> Response:
    experiment = await visit.run(usecases.load_experiment, experiment_id)
    chosen = {variant.id: visit.form.text(f"offering-{variant.id}") or None for variant in experiment.variants}
    visit.audit(offerings=chosen)
    await visit.run(usecases.set_offerings, experiment_id, chosen)
    return await visit.to(
        visit.path("experiments", experiment_id), "Saved. Customers see it from their next request on."
    )


async def _offerings(visit: Visit) -> list[tuple[str, str]]:
    known = await visit.run(offerings.list_offerings, limit=offerings.MOST_OFFERINGS)
    return [("", "The current offering"), *((offering.id, offering.lookup_key) for offering in known)]


def _variants(form: Form) -> list[Variant]:
    """Empty rows are skipped."""
    found = []
    with Checks() as check:
        for number in range(1, usecases.MOST + 1):
            id, weight = form.text(f"variant-{number}"), f"weight-{number}"
            if id:
                check(checked_id, id, f"variant-{number}")
                if not form.text(weight):
                    check.add(Invalid(f"The variant {id[:100]} needs a weight.", param=weight))
                weight_of_it = check(form.number, weight, low=1, high=usecases.HEAVIEST)
                found.append(Variant(id, weight_of_it, form.text(f"offering-{number}") or None))
    return found
