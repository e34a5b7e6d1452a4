"""A delivery worker as its own process: `python -m bench.delivering`."""

import asyncio
import os
import signal

import uvloop

from latchkey import logs
from latchkey.process.service import run_process
from latchkey.settings import load


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    logs.configure("warning", "json")
    await run_process(load(os.environ), ["delivery"], None, stop, ready=lambda: print("ready", flush=True))


if __name__ == "__main__":
    uvloop.run(main())
