from __future__ import annotations

import socket
import urllib.request

from tests.delivery.conftest import Yard
from tests.patience import until


async def test_a_worker_shows_what_waits_what_was_tried_and_how_long_it_took(yard: Yard) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    receiver = yard.receiver()
    good = await yard.hook(receiver.url())
    bad = await yard.hook(receiver.url("/status/500"), retry_seconds=(3600,))
    told = await yard.buy("ann", 3)
    yard.worker(LATCHKEY_METRICS_PORT=str(port))

    def shown() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            return str(page.read().decode())

    await until(lambda: len(receiver.arrivals("/")) == len(told))
    expected = [
        f'latchkey_delivery_attempts_total{{process="delivery",webhook="{good.id}",outcome="delivered"}} {len(told)}.0',
        f'latchkey_delivery_attempts_total{{process="delivery",webhook="{bad.id}",outcome="failed"}} 1.0',
        f'latchkey_delivery_seconds_count{{process="delivery",webhook="{good.id}"}} {len(told)}.0',
        'latchkey_batch_size_count{process="delivery",kind="claim"}',
        f'latchkey_deliveries_waiting{{webhook="{bad.id}"}}',
        f'latchkey_oldest_delivery_seconds{{webhook="{bad.id}"}}',
    ]
    await until(lambda: all(line in shown() for line in expected))
