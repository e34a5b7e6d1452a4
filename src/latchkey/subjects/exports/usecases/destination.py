"""Where exports go. An export is a folder of files with a `manifest.json`, which is written last.

A reader takes only folders with a manifest. In a file system the whole folder appears at once, under its final name.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from latchkey.domain.refusal import Refusal

MANIFEST = "manifest.json"
_PARTIAL = ".partial-"


class DestinationRefused(Refusal):
    """The destination cannot be written to or read. The message says why, in words for people, and no secret."""


class Upload(Protocol):
    """One export under way."""

    # Files are written here first.
    workspace: Path

    async def put(self, name: str) -> None:
        """This file of the workspace is complete."""
        ...

    async def finish(self, manifest: bytes) -> None:
        """All files are there. Only now the export exists."""
        ...


class Destination(Protocol):
    # For people; without secrets.
    shown: str

    def upload(self, folder: str) -> AbstractAsyncContextManager[Upload]:
        """Begin an export in this folder (`project/name`)."""
        ...

    def manifests(self, parent: str) -> AsyncIterator[bytes]:
        """The manifests of the exports in this folder, the last name first."""
        ...


class FolderDestination:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.shown = str(root)

    @asynccontextmanager
    async def upload(self, folder: str) -> AsyncIterator[Upload]:
        final = self.root / folder
        partial = final.with_name(_PARTIAL + final.name)
        held = -1
        try:
            with errors_in_words(self.shown):
                partial.mkdir(parents=True)
                held = os.open(partial, os.O_RDONLY)
                # Held while the export runs, so that others can tell it from one that was killed.
                fcntl.flock(held, fcntl.LOCK_EX)
                _remove_abandoned(final.parent)
            yield _FolderUpload(self.shown, partial, final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if held >= 0:
                os.close(held)

    async def manifests(self, parent: str) -> AsyncIterator[bytes]:
        with errors_in_words(self.shown):
            found = sorted((self.root / parent).glob(f"*/{MANIFEST}"), reverse=True)
        for path in found:
            if not path.parent.name.startswith("."):
                with errors_in_words(self.shown):
                    yield path.read_bytes()


class _FolderUpload:
    def __init__(self, shown: str, partial: Path, final: Path) -> None:
        self.workspace = partial
        self._shown = shown
        self._final = final

    async def put(self, name: str) -> None:
        with errors_in_words(self._shown):
            _sync(self.workspace / name)

    async def finish(self, manifest: bytes) -> None:
        with errors_in_words(self._shown):
            path = self.workspace / MANIFEST
            path.write_bytes(manifest)
            _sync(path)
            _sync(self.workspace)
            self.workspace.rename(self._final)
            _sync(self._final.parent)


@contextmanager
def errors_in_words(where: str) -> Iterator[None]:
    """Turns the errors of a file system into words for people."""
    try:
        yield
    except OSError as error:
        raise DestinationRefused(_words(error, where)) from error


def _words(error: OSError, where: str) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"There is no room left in {where}. Nothing of this export is kept; make room and run it again."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"{where} cannot be written to: permission denied."
        case errno.ENOTDIR | errno.EEXIST:
            return f"{where} is not a folder."
        case _:
            return f"{where} cannot be used: {error.strerror or type(error).__name__}."


def _remove_abandoned(parent: Path) -> None:
    """Removes what killed exports left behind. Those that still run hold a lock on their folder."""
    for path in parent.glob(f"{_PARTIAL}*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
