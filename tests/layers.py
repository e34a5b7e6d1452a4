"""What may import what: the parts of the package, and the files of a subject by their names."""

# Imports go one way. A part may import itself and these parts.
ARROWS: dict[str, set[str]] = {
    # `wire` holds the data formats that apps see; `domain` holds the rules, which know no format and no storage.
    "wire": set(),
    "domain": set(),
    "database": {"domain", "wire", "database_address"},
    # The one transaction and what surrounds it.
    "engine": {"domain", "wire", "database", "spans"},
    "stores": {"domain", "wire", "http_client", "now"},
    "observability": {"domain", "database", "engine", "settings", "spans"},
    # The shells of the API and of the dashboard. They use what subjects offer to all: rules, use cases and formats.
    "http": {"domain", "wire", "database", "engine", "stores", "settings", "logs", "observability", "spans"},
    "dashboard": {"domain", "wire", "database", "engine", "stores", "settings", "logs", "http", "first_of"},
    # Store emulators share no code with the adapters that check what they send.
    "emulators": {"domain", "http_client", "now", "server", "settings"},
    # The consumer runs in other people's servers and knows the service only by its data formats.
    "client": {"wire", "http_client"},
    "push": {"http_client"},
    "runtime": {"http_client"},
    "consumer": {"wire", "client", "push", "database_address"},
    # What every process needs.
    "http_client": set(),
    "database_address": set(),
    "now": set(),
    "first_of": set(),
    "garbage": set(),
    "logs": set(),
    # The spans of a trace, whoever records them.
    "spans": set(),
    "settings": {"domain"},
    "server": {"garbage", "settings"},
}
# A subject has one folder, `subjects/<subject>/`. What a file in it may import follows from its name: these files of
# its own subject, these files of other subjects, and these parts.
OWN: dict[str, set[str]] = {
    "rules": set(),
    "wire": {"rules"},
    "storage": {"rules"},
    "delivery": {"rules", "storage", "wire"},
    "usecases": {"rules", "storage", "wire", "render", "delivery"},
    "render": {"rules", "wire", "usecases", "delivery"},
    "api": {"rules", "wire", "render", "usecases", "delivery"},
    "page": {"rules", "wire", "render", "usecases", "delivery"},
    "command": {"rules", "wire", "render", "usecases", "delivery", "receiver"},
    "receiver": {"rules", "wire", "delivery"},
}
SHELLS = ("http", "dashboard")
OTHERS: dict[str, set[str]] = {
    "rules": {"rules"},
    "wire": {"wire"},
    "storage": {"rules"},
    "delivery": {"rules", "usecases"},
    "usecases": {"rules", "wire", "usecases", "delivery"},
    "render": {"rules", "wire", "render"},
    "receiver": {"rules"},
    # These, and the shells of the API and of the dashboard.
    **{part: {"rules", "wire", "render", "usecases", "delivery"} for part in ("api", "page", "command", *SHELLS)},
}
PARTS: dict[str, set[str]] = {
    "rules": {"domain"},
    "wire": {"domain", "wire"},
    "storage": {"domain", "wire", "database", "engine"},
    "delivery": {
        "domain",
        "wire",
        "database",
        "engine",
        "observability",
        "spans",
        "http_client",
        "settings",
        "now",
        "garbage",
    },
    "usecases": {"domain", "wire", "database", "engine", "observability", "stores", "http_client", "settings", "now"}
    | {"first_of"},
    "render": {"domain", "wire", "engine", "stores"},
    "api": {"domain", "wire", "engine", "http", "observability", "stores", "settings"},
    "page": {"domain", "wire", "engine", "dashboard", "http", "stores", "settings", "http_client"},
    "command": {"domain", "wire", "engine", "cli", "database", "stores", "settings", "now"}
    | {"http_client", "database_address"},
    "receiver": {"domain", "wire", "http_client"},
}
# These put the parts together, so they import them all. Nobody imports them but themselves.
COMPOSE = {"process", "cli"}


def place_of(module: str) -> tuple[str | None, str]:
    """The subject of a module, if it is in one, and its part or the name of its file in the subject."""
    part, *below = module.split(".")[1:] or [""]
    if part == "subjects" and below:
        return below[0], below[1] if len(below) > 1 else ""
    return None, part


def may_import(module: str, other: str) -> bool:
    (subject, part), (other_subject, other_part) = place_of(module), place_of(other)
    if part in COMPOSE and subject is None:
        return True
    if other_subject is None:
        return (part == other_part and subject is None) or other_part in (ARROWS if subject is None else PARTS)[part]
    if subject == other_subject:
        return part == other_part or other_part in OWN[part]
    return other_part in OTHERS.get(part, set())
