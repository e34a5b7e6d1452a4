"""A customer list in a URL: its filter, columns and order, read from the query and written into links."""

from msgspec import Struct
from msgspec.structs import replace

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Visit
from latchkey.domain.refusal import Invalid
from latchkey.subjects.segments.rules.facets import CustomerStatus
from latchkey.subjects.segments.rules.filter import (
    EVERYBODY,
    NAMES,
    CustomerFilter,
    Segment,
    Sort,
    parse,
    single,
    written,
)
from latchkey.subjects.segments.usecases import customer_lists as words
from latchkey.subjects.segments.usecases.customer_lists import DEFAULT, chosen, load_segment

# The colour of the badge of each status.
_COLOURS: dict[CustomerStatus, str] = {
    CustomerStatus.ACTIVE: "good",
    CustomerStatus.TRIAL: "accent",
    CustomerStatus.IN_GRACE_PERIOD: "warn",
    CustomerStatus.BILLING_ISSUE: "bad",
    CustomerStatus.CANCELLED: "warn",
    CustomerStatus.ONE_TIME_PURCHASE: "good",
    CustomerStatus.GRANTED: "accent",
}
STATUSES = {one: (title, _COLOURS.get(one, "")) for one, title in words.STATUSES.items()}
SORTS: dict[Sort, str] = {
    Sort.KEY: "Newest first",
    Sort.LAST_SEEN: "Last seen",
    Sort.FIRST_SEEN: "First seen",
    Sort.SPENT: "Most spent",
}


class Chosen(Struct, frozen=True):
    filter: CustomerFilter = EVERYBODY
    columns: tuple[str, ...] = DEFAULT
    sort: Sort = Sort.KEY
    segment: Segment | None = None

    @property
    def query(self) -> dict[str, str]:
        """For links. The default is left out."""
        said = written(self.filter)
        if self.columns != DEFAULT:
            said["columns"] = ",".join(self.columns)
        if self.sort is not Sort.KEY:
            said["sort"] = self.sort
        return said

    @property
    def words(self) -> list[tuple[str, str]]:
        """Each condition in words, and its name."""
        return list(words.conditions(self.filter))

    def without(self, name: str) -> dict[str, str]:
        return {key: text for key, text in self.query.items() if key != name}

    def like(self, **changes: object) -> dict[str, str]:
        return replace(self, **changes).query


_SEVERAL = ("status", "columns")
_KNOWN = frozenset((*NAMES, "columns", "sort", "segment"))


def unknown(form: Form, *own: str) -> list[str]:
    """Names that mean nothing to a list, besides those of the page itself."""
    return sorted({name for name, _ in form.pairs()} - _KNOWN - set(own))


async def read_chosen(visit: Visit, form: Form) -> Chosen:
    """From the query of a page, or from a form that carries the same fields. A box to tick has several values."""
    said = single(
        [(name, text.strip()) for name, text in form.pairs() if name in _KNOWN and text.strip()], _KNOWN, _SEVERAL
    )
    segment_id = said.pop("segment", "")
    if segment_id:
        if said:
            raise Invalid("Give a segment or a filter, not both.", param="segment")
        segment = await visit.run(load_segment, segment_id)
        return Chosen(segment.filter, segment.columns, segment.sort, segment)
    columns = [name for name in said.pop("columns", "").split(",") if name]
    sort = said.pop("sort", Sort.KEY.value)
    if sort not in set(Sort):
        raise Invalid(f"sort is one of {', '.join(Sort)}.", param="sort")
    return Chosen(parse(said), chosen(columns), Sort(sort))
