"""The code blocks of a page, and terminals in which its reader would type them."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cli.running import Shell, clean_environment
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]+?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)```", re.DOTALL)
# A server that the reader leaves running. It is ready when it says these words.
_UNTIL = "another terminal, until: "
_FILE = "file: "
# Blocks that no test can run: what they do is done before, or belongs to the reader.
NOT_RUN = ("running already", "installed already", "needs your server")


@dataclass(frozen=True, slots=True)
class Block:
    mark: str
    language: str
    code: str

    @property
    def file(self) -> str | None:
        return self.mark.removeprefix(_FILE) if self.mark.startswith(_FILE) else None

    @property
    def ready(self) -> str | None:
        """What the command says when it is ready, if it keeps running."""
        return self.mark.removeprefix(_UNTIL) if self.mark.startswith(_UNTIL) else None

    @property
    def typed(self) -> bool:
        return self.language == "sh" and not self.mark


def blocks(page: str, *headings: str) -> Iterator[Block]:
    """The blocks below these headings, or all."""
    text = (ROOT / page).read_text(encoding="utf-8")
    sections = [text.split(f"## {one}\n", 1)[1].split("\n## ", 1)[0] for one in headings] or [text]
    for found in _BLOCK.finditer("\n".join(sections)):
        block = Block(found["mark"] or "", found["language"], found["code"])
        assert block.typed or block.file or block.ready or block.mark in ("", *NOT_RUN), (page, block.mark)
        yield block


def type_into(folder: Path, code: str) -> str:
    """Types a block into the reader's terminal, and returns what it printed. Functions and exported variables stay."""
    state = folder / "terminal"
    script = f"touch {state}\n. {state}\n{code}\n{{ declare -f; export -p; }} > {state}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=clean_environment(),
    )
    assert done.returncode == 0, (code, done.stdout, done.stderr)
    return done.stdout


class Terminal(Shell):
    """Another terminal, with a block whose last command keeps running."""

    def __init__(self, folder: Path, code: str) -> None:
        *before, last = code.strip().splitlines()
        super().__init__("\n".join((f"cd {folder}", *before, f"exec {last}")))
