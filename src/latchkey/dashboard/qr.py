"""QR codes as the data of one SVG path: the content policy allows no images from elsewhere and no inline styles."""

from __future__ import annotations

from dataclasses import dataclass

import segno

# Readers need an empty border of four modules.
BORDER = 4


@dataclass(frozen=True, slots=True)
class QrCode:
    # Modules on each side, with the border.
    size: int
    path: str


def qr_code(text: str) -> QrCode:
    matrix = segno.make(text, error="m", micro=False).matrix
    runs = []
    for y, row in enumerate(matrix):
        x = 0
        while x < len(row):
            start = x
            while x < len(row) and row[x]:
                x += 1
            if x > start:
                runs.append(f"M{start + BORDER} {y + BORDER}h{x - start}v1h-{x - start}z")
            x += 1
    return QrCode(len(matrix) + 2 * BORDER, "".join(runs))
