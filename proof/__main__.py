"""`make proof`: check every model, and that the checker finds the mistakes that each of them can make on purpose.

`python -m proof Lanes` checks one of them.
"""

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from proof.checker import FOLDER, Checked, check, configuration

MODELS = sorted(file.stem for file in FOLDER.glob("*.toml"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make proof")
    parser.add_argument("models", nargs="*", metavar="model", help=f"which to check: {', '.join(MODELS)}")
    chosen = parser.parse_args().models or MODELS
    if unknown := [name for name in chosen if name not in MODELS]:
        parser.error(f"there is no model {unknown[0]}; there are {', '.join(MODELS)}")
    console = Console(highlight=False)
    began = time.monotonic()
    good = [_model(console, name) for name in chosen]
    console.print(f"{sum(good)} of {len(good)} models hold, in {time.monotonic() - began:.0f} s")
    sys.exit(not all(good))


def _model(console: Console, name: str) -> bool:
    model = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    console.print(f"[bold]{name}[/bold]: {model['title']}")
    good = True
    for what, constants in _bounds(model):
        checked = _run(console, name, model, {**constants, "Fault": '"none"'}, model["invariants"], what)
        good = good and checked.violated is None
        if checked.violated:
            console.print("\n".join(checked.said), markup=False)
    for fault, invariant in model.get("faults", {}).items():
        # Only with this invariant, so that it is the one that finds the fault.
        given = {**model["constants"], "Fault": f'"{fault}"'}
        checked = _run(console, name, model, given, [invariant], f"fault: {fault}", wanted=invariant)
        good = good and checked.violated == invariant
    return good


def _bounds(model: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for bounds in model.get("bounds", [{}]):
        constants = {**model["constants"], **bounds}
        yield ", ".join(f"{key} {value}" for key, value in constants.items()), constants


def _run(
    console: Console,
    name: str,
    model: Mapping[str, Any],
    constants: Mapping[str, str],
    invariants: Sequence[str],
    what: str,
    wanted: str | None = None,
) -> Checked:
    named = {**{value: value for value in model.get("model_values", ())}, **constants}
    text = configuration(named, invariants, symmetry=model.get("symmetry"))
    began = time.monotonic()
    with console.status(f"  {what}") as status:
        checked = check(name, text, progress=lambda states: status.update(f"  {what}: {states:,} states"))
    took = f"{checked.states:,} states, {time.monotonic() - began:.0f} s"
    if checked.violated != wanted:
        found = "not found" if checked.violated is None else checked.violated
        console.print(f"  [red]✗[/red] {what}: {found} ({took})")
    elif wanted:
        console.print(f"  [green]✓[/green] {what}: found by {wanted} ({took})")
    else:
        console.print(f"  [green]✓[/green] {what}: holds ({took})")
    return checked


if __name__ == "__main__":
    main()
