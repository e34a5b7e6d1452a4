"""What no file of the project may contain."""

import re

from tests.tracked import ROOT, text_of, tracked

# The patterns are built from pieces, so that this file does not contain what they match.

UP = "." * 2 + "/"
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(".".join(host))
        for host in (
            ("py" + "pi", "org"),
            ("python" + "hosted", "org"),
            ("npm" + "js", "org"),
            ("npm" + "js", "com"),
            ("un" + "pkg", "com"),
            ("js" + "delivr", "net"),
            ("docker", "io"),
            ("gh" + "cr", "io"),
            ("crates", "io"),
        )
    )
    + r"|https?://[^\s\"'<>]*/simple\b"
)
MACHINE_PATHS = re.compile(
    r"(?<![\w./${}:%-])/(?:" + "|".join(("home", "root", "Users", "work", "workspace", "mnt")) + r")/\w"
    r"|\b[A-Z]:\\\w+\\"
)
UPWARDS = re.compile(r"(?<![.\w])(?:" + re.escape(UP) + r")+[\w./-]*")


def says(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {found.group()}"
        for path in tracked()
        # Almost no file has any, and one search of the whole text is faster than one of each line.
        if pattern.search(text_of(path))
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if (found := pattern.search(line))
    ]


def test_no_file_names_a_registry() -> None:
    """The machine that installs packages decides where they come from."""
    assert not says(REGISTRY_HOSTS)


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    assert not says(MACHINE_PATHS)


def test_every_path_upwards_stays_in_the_project_and_leads_somewhere() -> None:
    astray = []
    for path in tracked():
        if UP not in text_of(path):
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            for found in UPWARDS.findall(line):
                target = (path.parent / found).resolve()
                if not target.is_relative_to(ROOT) or not target.exists():
                    astray.append(f"{path.relative_to(ROOT)}:{number}: {found}")
    assert not astray
