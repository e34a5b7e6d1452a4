"""Records what is stored for each customer at each webhook after each transaction, and asks the model checker whether
the model of the queue, proof/Lanes.tla, can do the same."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import json

from latchkey.database.pool import Database
from proof.checker import check, configuration

# For a test's database. A row locks its lane until the commit, so for one customer at one webhook the numbers of the
# changes of lanes are in the order of commits.
_TRIGGERS = """
create table recorded (
    id bigserial, tx xid8 default pg_current_xact_id(), customer bigint, webhook bigint, kind text, key bigint,
    state json
);
create function record_lane() returns trigger language plpgsql as $$
begin
    insert into recorded (customer, webhook, kind, key, state)
    select coalesce(new.customer_id, old.customer_id), coalesce(new.webhook_key, old.webhook_key), 'lane',
        coalesce(new.aside, old.aside),
        case when tg_op <> 'DELETE' then json_build_array(new.waiting, new.done, new.token) end;
    return null;
end $$;
create function record_delivery() returns trigger language plpgsql as $$
begin
    insert into recorded (customer, webhook, kind, key, state)
    select coalesce(new.customer_id, old.customer_id), coalesce(new.webhook_key, old.webhook_key), 'row',
        coalesce(new.sequence, old.sequence),
        case when tg_op <> 'DELETE' then json_build_array(
            new.status, new.aside, new.attempts > 0, new.error is not null, new.replay_id is not null
        ) end;
    return null;
end $$;
create trigger record_lane after insert or update or delete on lanes for each row execute function record_lane();
create trigger record_delivery after insert or update or delete on deliveries
    for each row execute function record_delivery();
"""
_NO_ROW = ("none", False, False, False, False)
_NO_LANE = (0, 0, 0)

State = dict[tuple[str, int], tuple[Any, ...]]
Trace = Sequence[State]


async def start(database: Database) -> None:
    await database.pool.execute(_TRIGGERS)


async def recorded(database: Database) -> Sequence[Trace]:
    """One trace for each customer at each webhook: what was stored after each transaction that changed it."""
    rows = await database.pool.fetch(
        """
        select customer, webhook, kind, key, state,
            max(id) filter (where kind = 'lane') over same as of_lane, max(id) over same as of_all
        from recorded
        window same as (partition by customer, webhook, tx)
        order by customer, webhook, coalesce(max(id) filter (where kind = 'lane') over same, max(id) over same), id
        """
    )
    traces = []
    for _, of_one in groupby(rows, lambda row: (row["customer"], row["webhook"])):
        state: State = {}
        trace = [state]
        for _, of_transaction in groupby(of_one, lambda row: row["of_lane"] or row["of_all"]):
            after = dict(state)
            for row in of_transaction:
                if row["state"] is None:
                    after.pop((row["kind"], row["key"]), None)
                else:
                    after[row["kind"], row["key"]] = tuple(json.decode(row["state"]))
            changed = [one for one in {**state, **after} if state.get(one) != after.get(one)]
            unit = _unit(state, after)
            # A statement may claim or record several lanes. The model does one after the other.
            for _, of_lane in groupby(sorted(changed, key=unit), unit):
                state = dict(state)
                for one in of_lane:
                    if one in after:
                        state[one] = after[one]
                    else:
                        del state[one]
                trace.append(state)
        traces.append(trace[1:])
    return traces


def _unit(before: State, after: State) -> Callable[[tuple[str, int]], int]:
    """The lane that a change belongs to: for a delivery the one that it was in, otherwise the one that it is in now."""

    def unit(changed: tuple[str, int]) -> int:
        kind, key = changed
        status, aside, *_ = before.get(("row", key), _NO_ROW)
        if status != "waiting":
            status, aside, *_ = after.get(("row", key), _NO_ROW)
        # A lane of its own that it gets when it leaves its customer's lane changes with that.
        in_own = status == "waiting" and aside
        return key if in_own or (kind == "lane" and status != "waiting") else 0

    return unit


def unexplained(traces: Sequence[Trace]) -> Mapping[int, int]:
    """The traces that no behaviour of the model explains, each with how many of its steps are explained."""
    last = max(key for trace in traces for state in trace for _, key in state)
    constants = {
        "Last": str(last),
        "Together": "2",
        # Each lane has one owner.
        "Workers": f"{{{', '.join(map(str, range(1, last + 3)))}}}",
        "Requeues": "1000",
        "Deletes": "FALSE",
        "Fault": '"none"',
    }
    text = ",\n".join(f"<<{', '.join(_stored(state, last) for state in trace)}>>" for trace in traces)
    checked = check(
        "LanesTrace",
        configuration(constants, ["Explained"], specification="TraceSpec"),
        modules={"Traces": f"---- MODULE Traces ----\nEXTENDS Integers\nRecorded == <<{text}>>\n====\n"},
    )
    assert checked.violated is None, "\n".join(checked.said[-30:])
    furthest: dict[int, int] = defaultdict(int)
    for which, step in re.findall(r'<<"explained", (\d+), (\d+)>>', "\n".join(checked.said)):
        furthest[int(which) - 1] = max(furthest[int(which) - 1], int(step))
    return {which: furthest[which] for which, trace in enumerate(traces) if furthest[which] < len(trace)}


def _stored(state: State, last: int) -> str:
    rows = [_tuple(state.get(("row", sequence), _NO_ROW)) for sequence in range(1, last + 1)]
    lanes = [
        _tuple([waiting, done, token != 0])
        for waiting, done, token in (state.get(("lane", aside), _NO_LANE) for aside in range(last + 1))
    ]
    return f"[rows |-> <<{', '.join(rows)}>>, lanes |-> <<{', '.join(lanes)}>>]"


def _tuple(values: Sequence[Any]) -> str:
    texts = (json.encode(value).decode() for value in values)
    return f"<<{', '.join(text.upper() if text in {'true', 'false'} else text for text in texts)}>>"
