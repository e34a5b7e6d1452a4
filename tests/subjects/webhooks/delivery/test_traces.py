"""What the real queue stores under random trouble is a behaviour of its model, proof/Lanes.tla."""

import asyncio
import random
import signal

import pytest

from latchkey.subjects.webhooks.delivery.queue.requeue_runs import resend, start_replay, stop_replay
from latchkey.subjects.webhooks.rules import ReplayRange, Webhook
from tests.patience import until
from tests.subjects.webhooks.delivery import traces
from tests.subjects.webhooks.delivery.conftest import PROJECT, Yard, now_ms

# As if the time of leases and retries had come, for some: workers go on with leases that have run out.
TIME_PASSES = """
with closed as (
    update webhooks set open_until = null
    where key in (select key from webhooks where open_until is not null for update skip locked)
)
update lanes set lease_until = 0, next_at = least(next_at, $1)
where ctid = any(array(select ctid from lanes where random() < 0.5 for update skip locked))
"""
STEPS = 50


class Trouble:
    def __init__(self, yard: Yard, webhooks: list[Webhook], chances: random.Random) -> None:
        self.yard = yard
        self.webhooks = webhooks
        self.chances = chances
        self.workers = [yard.worker(), yard.worker()]
        self.replays: list[tuple[Webhook, str]] = []
        self.told: list[str] = []

    async def is_over(self) -> bool:
        await self.yard.database.pool.execute(TIME_PASSES, now_ms())
        return not await self.yard.count("waiting")

    async def step(self) -> None:
        chances, database = self.chances, self.yard.database
        webhook, now = chances.choice(self.webhooks), now_ms()
        match chances.choice(("buy", "buy", "time", "time", "resend", "replay", "stop", "kill", "freeze", "pause")):
            case "buy":
                user = f"user{chances.randrange(6)}"
                if len([one for one in self.told if one == user]) < 4:
                    self.told.append(user)
                    await self.yard.buy(user)
            case "time":
                await database.pool.execute(TIME_PASSES, now)
            case "resend":
                events = await database.pool.fetch("select id from events")
                if events:
                    await resend(database, PROJECT, webhook.id, chances.choice(events)["id"], now)
            case "replay":
                types = chances.choice(((), ("NON_RENEWING_PURCHASE",), ("VIRTUAL_CURRENCY_TRANSACTION",)))
                chosen = ReplayRange(0, None, chances.choice(("failed", "all")), types)
                self.replays.append((webhook, (await start_replay(database, PROJECT, webhook.id, chosen, now)).id))
            case "stop" if self.replays:
                of, id = self.replays.pop(chances.randrange(len(self.replays)))
                await stop_replay(database, PROJECT, of.id, id, now)
            case "kill":
                which = chances.randrange(2)
                self.workers[which].kill()
                self.workers[which] = await asyncio.to_thread(self.yard.worker)
            case "freeze":
                self.workers[0].signal(signal.SIGSTOP)
                await database.pool.execute(TIME_PASSES, now)
                self.workers[0].signal(signal.SIGCONT)
            case "pause":
                for enabled in (False, True):
                    await self.yard.webhooks.change(PROJECT, webhook.id, now, enabled=enabled)


@pytest.mark.processes
async def test_what_the_queue_stores_under_random_trouble_is_a_behaviour_of_its_model(yard: Yard) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    chances = random.Random(seed)
    receiver = yard.receiver()
    # Three attempts; the last one two minutes after the second, so that the delivery steps aside.
    schedule = (1, 150)
    webhooks = [await yard.hook(receiver.url(path), retry_seconds=schedule) for path in ("/", "/flaky/1", "/flaky/9")]
    await traces.start(yard.database)
    trouble = Trouble(yard, webhooks, chances)
    for _ in range(STEPS):
        await trouble.step()
        await asyncio.sleep(chances.uniform(0, 0.05))
    await until(trouble.is_over, every=0.2)
    recorded = await traces.recorded(yard.database)
    # And the longest with a count that is wrong once: refused from there on.
    longest = max(recorded, key=len)
    wrong = []
    for place in (len(longest) // 3, len(longest) // 2):
        states = list(longest)
        states[place] = {
            key: (value[0] + 1, *value[1:]) if key[0] == "lane" else value for key, value in states[place].items()
        }
        wrong.append((place, states))
    found = await asyncio.to_thread(traces.unexplained, [*recorded, *(states for _, states in wrong)])
    assert found == {len(recorded) + number: place for number, (place, _) in enumerate(wrong)}, f"seed {seed}"
