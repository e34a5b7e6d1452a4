"""Enough of PromQL to read the expressions of our rules: which metrics and labels each one uses. Whatever it does not
know is an error, so that a typing mistake is not taken for something new."""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<duration>\[(?:\d+[smhdw]|\$__rate_interval)\])"
    r"|(?P<time>\d+[smhdw]\b)"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"|(?P<sign>==|!=|>=|<=|=~|!~|[-+*/%^><=(){},])"
)
FUNCTIONS = {"rate", "increase", "delta", "deriv", "histogram_quantile", "time", "abs", "clamp_min", "absent"}
AGGREGATES = {"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile"}
WORDS = {"and", "or", "unless"}


@dataclass
class Use:
    """A metric in an expression."""

    name: str
    # Label to the comparison and its value.
    labels: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Expression:
    metrics: list[Use]
    # Labels by which something is grouped.
    grouped: set[str]


def read(text: str) -> Expression:
    tokens = _tokens(text)
    found = Expression([], set())
    depth, place = 0, 0
    while place < len(tokens):
        kind, word = tokens[place]
        follows = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        place += 1
        if kind == "sign":
            depth += {"(": 1, ")": -1}.get(word, 0)
            assert depth >= 0, f"a bracket too many: {text}"
            assert word not in "{}", f"labels without a metric: {text}"
        elif kind == "name" and word in {"by", "without"}:
            assert follows == "(", text
            place, names = _until(tokens, place + 1, ")", text)
            found.grouped |= {name for _, name in names if name != ","}
        elif kind == "name" and word == "offset":
            assert tokens[place][0] == "time", text
            place += 1
        elif kind == "name" and (word in AGGREGATES or word in FUNCTIONS) and (follows == "(" or word in AGGREGATES):
            assert follows in {"(", "by", "without"}, text
        elif kind == "name" and word not in WORDS:
            assert follows != "(", f"{word} is no function that is known here: {text}"
            use = Use(word)
            found.metrics.append(use)
            if follows == "{":
                place, matchers = _until(tokens, place + 1, "}", text)
                use.labels = _labels(matchers, text)
    assert depth == 0, f"a bracket is open: {text}"
    assert found.metrics, f"no metric: {text}"
    return found


def _labels(tokens: list[tuple[str, str]], text: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    parts = [one for one in tokens if one[1] != ","]
    assert len(parts) % 3 == 0, text
    for (_, name), (_, sign), (kind, value) in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        assert sign in {"=", "!=", "=~", "!~"}, text
        assert kind == "string", text
        found[name] = sign, value[1:-1]
    return found


def _until(tokens: list[tuple[str, str]], place: int, end: str, text: str) -> tuple[int, list[tuple[str, str]]]:
    for number in range(place, len(tokens)):
        if tokens[number][1] == end:
            return number + 1, tokens[place:number]
    raise AssertionError(f"{end} is missing: {text}")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, place = [], 0
    while place < len(text):
        found = TOKEN.match(text, place)
        assert found is not None, f"not PromQL at {text[place:]!r}"
        assert found.lastgroup is not None
        if found.lastgroup != "space":
            tokens.append((found.lastgroup, found[0]))
        place = found.end()
    return tokens
