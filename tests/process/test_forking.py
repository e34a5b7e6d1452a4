"""Processes that are copies of one that has loaded the code: what they share with it, and what they must not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import clean_environment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere nothing is copied")

BEGIN = """
import asyncio, os, signal, socket, sys, threading
from latchkey.process.supervision.fork_server import Forked, forget_settings, fork, may_fork

def ended(main, **options):
    copy = fork(main, **{"keep": (), "output": None, **options})
    return asyncio.run(copy.wait())
"""


def told(script: str, **environment: str) -> list[str]:
    """The lines that a fresh process with this script prints. Our own process has threads and cannot be copied."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True, env=clean_environment(**environment)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_process_with_a_second_thread_is_not_copied() -> None:
    script = """
print(may_fork())
done = threading.Event()
threading.Thread(target=done.wait).start()
print(may_fork())
done.set()
"""
    assert told(script) == ["True", "False"]


def test_a_copy_has_only_its_own_sockets_and_its_output(tmp_path: Path) -> None:
    script = f"""
lock = os.open({str(tmp_path / "lock")!r}, os.O_RDWR | os.O_CREAT)
ours, theirs = socket.socketpair()
def main():
    names = [os.readlink(f"/proc/self/fd/{{n}}") for n in range(200) if os.path.exists(f"/proc/self/fd/{{n}}")]
    print(len(names), os.readlink("/proc/self/fd/0"), *sorted({{name.partition(":")[0] for name in names[1:]}}))
    print("to the log", file=sys.stderr)
    theirs.sendall(b"hello")
with open({str(tmp_path / "log")!r}, "wb") as log:
    assert ended(main, keep=[theirs], output=log) == 0
print(ours.recv(9))
"""
    assert told(script) == ["b'hello'"]
    assert (tmp_path / "log").read_text().splitlines() == [
        f"4 /dev/null {tmp_path / 'log'} socket",
        "to the log",
    ]


def test_ctrl_c_is_left_to_the_original_and_sigterm_ends_a_copy() -> None:
    script = """
def refuse(*_):
    raise RuntimeError("this is the original's")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, refuse)
ours, theirs = socket.socketpair()
def main():
    os.kill(os.getpid(), signal.SIGINT)
    theirs.sendall(b"goes on")
    signal.pause()
copy = fork(main, keep=[theirs], output=None)
print(ours.recv(9))
copy.send_signal(signal.SIGTERM)
print(asyncio.run(copy.wait()))
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGINT) is refuse)
"""
    assert told(script) == ["b'goes on'", "-15", "set() True"]


def test_two_copies_give_their_requests_different_ids() -> None:
    script = """
from latchkey.http import exchange
def main():
    print(exchange._PROCESS.decode())
main()
for _ in range(2):
    assert ended(main) == 0
"""
    assert len(set(told(script))) == 3


def test_processes_are_ended_if_up_is_stopped_before_its_event_loop_runs(short_folder: Path) -> None:
    script = f"""
from pathlib import Path
from latchkey.process.up import command as up
from latchkey.process.supervision.stop_signal import StoppedError
started = []
def show(console, parts, chosen):
    started.extend(child.process.pid for child in parts.supervisor.children)
    raise StoppedError
up.show = show
up.up(data=Path({str(short_folder / "stopped")!r}), port=0, host=None, workers=1, stores=True, history=None)
print(*[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in started])
"""
    assert told(script) == ["-9 -9 -9 -9"]
