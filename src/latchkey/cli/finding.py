"""One line of `latchkey doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    mark: Literal["good", "bad", "unknown"]
    about: str
    words: str
    remedy: str = ""
