"""The rows of some customers, put together: who they are, what they bought, and where each row stands in the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from latchkey.domain.importing.person import Person, PurchaseKey, person, together
from latchkey.domain.importing.row import CustomerRow, TransactionRow
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.usecases.importing.packing import is_transaction, unpack_customer, unpack_transaction


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that was not applied, by the number of its file."""

    file: int
    line: int
    reason: str


@dataclass(slots=True)
class Batch:
    """What one batch holds, before it is written."""

    people: list[Person]
    # Where the rows of each purchase stand in the files, and those of each customer.
    places: dict[PurchaseKey, list[tuple[int, int]]]
    homes: dict[str, tuple[int, int]]

    def problems(self, bought: Iterable[Subscription | Purchase], reason: str) -> list[Problem]:
        """One for each row of these purchases."""
        return [Problem(*place, reason) for one in bought for place in self.places.get((one.store, one.id), ())]


def read_batch(groups: Mapping[str, Iterable[bytes]]) -> Batch:
    places: dict[PurchaseKey, list[tuple[int, int]]] = {}
    homes: dict[str, tuple[int, int]] = {}
    people: list[Person] = []
    for key, packed in groups.items():
        transactions: list[TransactionRow] = []
        told: list[CustomerRow] = []
        for one in packed:
            if is_transaction(one):
                file, line, row = unpack_transaction(one)
                transactions.append(row)
                places.setdefault((row.store, row.chain), []).append((file, line))
            else:
                file, line, about = unpack_customer(one)
                told.append(about)
            homes.setdefault(key, (file, line))
        made = person(key, transactions, told)
        homes[made.app_user_id] = homes[key]
        people.append(made)
    return Batch(_unrepeated(people), places, homes)


def _unrepeated(people: Iterable[Person]) -> list[Person]:
    """People who share an id or a purchase are one."""
    found: list[Person | None] = []
    holders: dict[object, int] = {}
    for one in people:
        named: set[object] = {*one.ids, *one.keys}
        index = len(found)
        found.append(one)
        while shared := {holders[name] for name in named if name in holders} - {index}:
            for other in shared:
                mine, theirs = found[index], found[other]
                assert mine is not None
                if theirs is not None:
                    found[index] = mine = together(theirs, mine)
                    named |= {*mine.ids, *mine.keys}
                found[other] = None
                holders = {name: index if holder == other else holder for name, holder in holders.items()}
        holders.update(dict.fromkeys(named, index))
    return [one for one in found if one is not None]
