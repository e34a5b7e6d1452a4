"""The system user that runs PostgreSQL when Latchkey runs as root. `useradd` is a script here: no user is created."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ASKING = """
import os, pwd, sys
from pathlib import Path

users = Path(sys.argv[1])

def getpwnam(name):
    if name not in users.read_text().split():
        raise KeyError(name)
    return pwd.struct_passwd((name, "x", 995, 994, "", "/", "/usr/sbin/nologin"))

pwd.getpwnam = getpwnam
os.geteuid = lambda: 0

from latchkey.database.embedded import system_user

system_user.PAUSE = 0.01
print(system_user.server_user().uid)
"""

# As the real one: it looks whether the user exists long before it writes.
ADDS = 'for name; do :; done; grep -q "$name" "{users}" && exit 9; sleep 0.3; echo "$name" >> "{users}"'
BUSY_AT_FIRST = (
    'echo >> "{users}"; [ "$(wc -l < "{users}")" -lt 3 ] && {{ echo "cannot lock /etc/passwd" >&2; exit 1; }}; ' + ADDS
)
NEVER = 'echo "useradd: Permission denied." >&2; exit 1'


def processes(folder: Path, useradd: str, number: int) -> list[tuple[str, str]]:
    """What each of them printed and complained about."""
    users = folder / "users"
    users.touch()
    command = folder / "useradd"
    command.write_text(f"#!/bin/sh\n{useradd.format(users=users)}\n")
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ASKING, users],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(number)
    ]
    return [one.communicate() for one in started]


def test_processes_that_start_at_once_create_the_user_once(tmp_path: Path) -> None:
    said = processes(tmp_path, ADDS, 4)
    assert said == [("995\n", "")] * 4
    assert (tmp_path / "users").read_text().split() == ["pgserver"]


def test_a_locked_list_of_users_is_tried_again(tmp_path: Path) -> None:
    assert processes(tmp_path, BUSY_AT_FIRST, 1) == [("995\n", "")]


def test_a_user_that_cannot_be_created_is_said_with_the_reason(tmp_path: Path) -> None:
    ((printed, complained),) = processes(tmp_path, NEVER, 1)
    assert printed == ""
    assert "the user `pgserver` could not be created (useradd: Permission denied.)" in complained
    assert "or run Latchkey as a normal user" in complained
