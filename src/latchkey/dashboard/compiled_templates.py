"""Compiled templates, kept beside Python's own bytecode: compiling all of them takes a second of CPU, loading them a
fiftieth of that.

One file for each template, in the `__pycache__` folder of this package. It is used only if it was made from the same
template, by the same Jinja2 and Python, for the same environment. Where Python may not write bytecode (the folder is
read-only, or PYTHONDONTWRITEBYTECODE is set), nothing is written, and templates are compiled when first used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
from importlib.metadata import version
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

FOLDER = Path(__file__).with_name("__pycache__") / "templates"


class CompiledTemplates(BytecodeCache):
    def __init__(self, folder: Path, *sources: Path) -> None:
        """`sources` are the Python files that decide how a template is compiled: they hold the environment's options
        and its filters, which the compiler calls for values that are constant."""
        # Whether a template was not found here, so that others have to be compiled, too.
        self.incomplete = False
        self._folder = folder
        self._made_by = version("jinja2").encode() + b"".join(source.read_bytes() for source in sources)

    def get_cache_key(self, name: str, filename: str | None = None) -> str:  # noqa: ARG002 - given by Jinja2
        return f"{name.replace('/', '-')}.{sys.implementation.cache_tag}"

    def get_source_checksum(self, source: str) -> str:
        return hashlib.sha256(self._made_by + source.encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        # A file that is cut short is as good as none.
        with (
            contextlib.suppress(OSError, EOFError, ValueError, pickle.UnpicklingError),
            (self._folder / bucket.key).open("rb") as file,
        ):
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.incomplete = True
        if sys.dont_write_bytecode:
            return
        draft = self._folder / f"{bucket.key}.{os.getpid()}"
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True, parents=True)
            try:
                draft.write_bytes(bucket.bytecode_to_string())
                draft.replace(self._folder / bucket.key)
            finally:
                draft.unlink(missing_ok=True)
