"""The samples of a soak as one SVG, with the geometry and the colours of the dashboard's charts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from html import escape
from statistics import median

from bench.soak.sampling import MIB, SHARED, Sample
from bench.soak.verdict import (
    GROWING,
    TIMED,
    Value,
    bounded,
    cpu_of,
    disk_of,
    files_of,
    memory_of,
    table_of,
    timing_of,
)
from latchkey.dashboard.drawing.picture import DrawnSeries, Picture, PicturePeriod, picture
from latchkey.dashboard.templates import STATIC

# Each point is the median of its stretch of samples.
POINTS, MOST_LINES, COLUMNS = 120, 5, 2
LEFT, WIDTH, GAP, TITLE = 60, 560, 24, 44
ABOVE, HEIGHT, BELOW = 50, 160, 46
_COLOUR = re.compile(r"--(ink|soft|line|surface|series-\d+): light-dark\((#\w+), (#\w+)\)")


def draw(samples: Sequence[Sample]) -> str:
    title = f"Latchkey for {samples[-1].at / 3600:.1f} hours: {samples[-1].purchases:,} purchases"
    panels = enumerate(_panels(samples).items())
    drawn = [_panel(place, name, _picture(samples, name, lines)) for place, (name, lines) in panels]
    width, height = COLUMNS * (LEFT + WIDTH + GAP), TITLE + -(-len(drawn) // COLUMNS) * (ABOVE + HEIGHT + BELOW)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{escape(title)}</title><style>{_style()}</style>\n"
        f'<rect class="ground" width="{width}" height="{height}"/>'
        f'<text class="title" x="16" y="30">{escape(title)}</text>{"".join(drawn)}</svg>\n'
    )


def _panels(samples: Sequence[Sample]) -> Mapping[str, Mapping[str, Value]]:
    """The lines of each by name."""
    # Not since the start, when the demo's year of customers is written.
    first, last = samples[len(samples) // 8], samples[-1]

    def added(name: str) -> Value:
        size = table_of(name, "bytes")

        def each(sample: Sample) -> float | None:
            bought = sample.purchases - first.purchases
            return ((size(sample) or 0) - (size(first) or 0)) / bought if bought > 0 else None

        return each

    def largest(names: Iterable[str], field: str) -> list[str]:
        return sorted(names, key=lambda name: -getattr(last.tables[name], field))[:MOST_LINES]

    places = sorted(last.disk, key=lambda place: -last.disk[place])[:MOST_LINES]
    return {
        "Memory of processes, MiB": {role: memory_of(role) for role in last.memory if role != SHARED},
        "CPU of a second, ms": {role: cpu_of(role, samples) for role in last.cpu},
        "Latency, p50, ms": {kind: timing_of(kind, "p50") for kind in TIMED},
        "Latency, p99, ms": {kind: timing_of(kind, "p99") for kind in TIMED},
        "Bytes for each purchase since the first eighth": {name: added(name) for name in largest(GROWING, "bytes")},
        "Dead rows": {name: table_of(name, "dead") for name in largest(last.tables, "dead")},
        "Rows of tables that must not grow": {name: table_of(name, "rows") for name in largest(bounded(last), "rows")},
        "Tables that must not grow, MiB": {
            name: table_of(name, "bytes", MIB) for name in largest(bounded(last), "bytes")
        },
        "Open files and sockets": {role: files_of(role) for role in last.files},
        "Disk, MiB": {place: disk_of(place) for place in places},
    }


def _picture(samples: Sequence[Sample], name: str, lines: Mapping[str, Value]) -> Picture:
    size = -(-len(samples) // POINTS)
    stretches = [samples[start : start + size] for start in range(0, len(samples), size)]
    periods = [PicturePeriod(at, at) for stretch in stretches for at in [str(timedelta(seconds=int(stretch[0].at)))]]
    series = [DrawnSeries(key, [_middle(map(value, stretch)) for stretch in stretches]) for key, value in lines.items()]
    return picture(name, "lines", periods, series, _short, _short)


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _panel(place: int, name: str, found: Picture) -> str:
    x, y = LEFT + place % COLUMNS * (LEFT + WIDTH + GAP), TITLE + place // COLUMNS * (ABOVE + HEIGHT + BELOW)
    keys = "".join(f'<tspan class="k{key.place}" dx="10">■ {escape(key.title)}</tspan>' for key in found.legend)
    parts = [
        f'\n<g transform="translate({x} {y})"><text class="name" y="14">{escape(name)}</text>',
        f'<text x="-10" y="33">{keys}</text><g transform="translate(0 {ABOVE})">',
    ]
    for level in found.levels:
        at = round(level.at / 100 * HEIGHT, 1)
        parts.append(f'<line class="grid" x2="{WIDTH}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="-8" y="{at + 4}" text-anchor="end">{level.words}</text>')
    for label in found.labels:
        # Those of rank 3 are for wide pictures.
        if label.rank < 3:
            at = label.at / 100 * WIDTH
            parts.append(f'<text x="{at:.0f}" y="{HEIGHT + 17}" text-anchor="{label.anchor}">{label.words}</text>')
    parts.append(f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 1000 1000" preserveAspectRatio="none">')
    parts += [f'<path class="s{line.place}" d="{line.solid}"/>' for line in found.lines]
    return "".join([*parts, "</svg></g></g>"])


def _style() -> str:
    """The colours of the dashboard's own style sheets, light and dark."""
    sheets = "".join((STATIC / name).read_text() for name in ("style.css", "charts.css"))
    light, dark = ({found[0]: found[place] for found in _COLOUR.findall(sheets)} for place in (1, 2))
    return (
        "text{font:12px system-ui,sans-serif}.title,.name{font-size:14px;font-weight:600}"
        "path{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}"
        f"{_rules(light)}@media(prefers-color-scheme:dark){{{_rules(dark)}}}"
    )


def _rules(colours: Mapping[str, str]) -> str:
    fills = {".ground": "surface", "text": "soft", ".title,.name": "ink"}
    rules = [f"{selector}{{fill:{colours[name]}}}" for selector, name in fills.items()]
    rules.append(f".grid{{stroke:{colours['line']}}}")
    for name, colour in colours.items():
        series, _, place = name.partition("-")
        if series == "series":
            rules.append(f".s{place}{{stroke:{colour}}}.k{place}{{fill:{colour}}}")
    return "".join(rules)


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
