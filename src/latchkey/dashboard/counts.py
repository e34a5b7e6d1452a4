"""A count over several requests: the position and the result so far are in the URL of the next request.

Nothing is stored between them. Whoever edits the URL only shows themselves a wrong number.
"""

from collections.abc import Iterator, Mapping

from latchkey.dashboard.form import Form
from latchkey.domain.refusal import Invalid
from latchkey.engine.clock import ScanProgress


def place_of(query: Form) -> ScanProgress:
    return ScanProgress(query.number("after", 0), query.number("passed", 0), query.number("last", 0))


def counts_of(query: Form, name: str) -> dict[str, int]:
    counts = {}
    for text in query.all(name):
        id, _, count = text.rpartition("|")
        if not (count.isascii() and count.isdecimal() and len(count) <= 12):
            raise Invalid("This address is incomplete. Go back and start again.", param=name)
        counts[id] = int(count)
    return counts


def written(place: ScanProgress, **counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """What `place_of` and `counts_of` read."""
    yield from (("after", str(place.after)), ("passed", str(place.passed)), ("last", str(place.last)))
    for name, found in counts.items():
        yield from ((name, f"{id}|{count}") for id, count in sorted(found.items()))
