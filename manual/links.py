"""Links between files of the repository, as links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = "docs"
# Pages of the site that are not below docs/.
OTHERS = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "deploy/README.md": "deploying.md",
    "examples/notes/README.md": "example-notes.md",
    "examples/paddle/README.md": "example-paddle.md",
    "clients/javascript/README.md": "javascript.md",
}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^ *(```+|~~~+)")


def rewritten(text: str, source: str, page: str, missing: Callable[[str], None]) -> str:
    """The Markdown of the file `source` of the repository, as the site's page `page`. `missing` hears of links to files
    that do not exist."""

    def replaced(found: re.Match[str]) -> str:
        bang, words, target = found.groups()
        if re.match(r"[a-z]+:|#|/", target):
            return found[0]
        path, hash_, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = page_of(wanted)
        if there is not None:
            return f"{bang}[{words}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{hash_}{anchor})"
        if not (ROOT / wanted).exists():
            missing(f"{source} links to {target}, which does not exist")
        return f"{words} (`{wanted}` in the repository)"

    made, fence = [], ""
    for line in text.split("\n"):
        edge = _FENCE.match(line)
        if edge is not None:
            fence = edge[1] if not fence else "" if line.strip().startswith(fence) else fence
        made.append(line if fence or edge else _LINK.sub(replaced, line))
    return "\n".join(made)


def page_of(path: str) -> str | None:
    """The page or file of the site for a file of the repository."""
    if path.startswith(f"{DOCS}/") and (ROOT / path).exists():
        return (
            path.removeprefix(f"{DOCS}/") if (ROOT / path).is_file() else f"{path.removeprefix(f'{DOCS}/')}/README.md"
        )
    return OTHERS.get(path) or OTHERS.get(f"{path}/README.md")
