"""The start of a process: its code is loaded without garbage collection. Imports only the standard library.

Loading makes some 500,000 objects, and nearly all of them stay until the process ends. With the collector on, Python
looks at them again and again, and once more at exit: a third of the CPU of a start. Cyclic garbage is collected as
usual from the moment on when the code is loaded.
"""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module


def loading() -> None:
    gc.disable()


def loaded() -> None:
    """After `loading()`: the collector works again and never looks at what was loaded. Otherwise nothing changes."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def main() -> None:
    """A process of the supervisor: `python -m latchkey.cli.start MODULE SOCKET ROLE ...` runs the module's `main`.
    Where the module has a function `load`, that imports what these roles need."""
    # Ctrl-C reaches the whole process group; the supervisor decides and sends us SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loading()
    module = import_module(sys.argv.pop(1))
    if hasattr(module, "load"):
        module.load(sys.argv[2:])
    loaded()
    module.main()


if __name__ == "__main__":
    main()
