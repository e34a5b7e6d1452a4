"""Wheel and source distribution. The same source gives the same bytes, whoever builds it and when."""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def build(source: Path, folder: Path, epoch: int) -> list[Path]:
    """The wheel and the source distribution. The wheel is built from the latter, so that both work without git."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("latchkey-*"):
        old.unlink()
    sources = _hatchling("sdist", source, folder, epoch)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(sources) as archive:
            archive.extractall(unpacked, filter="data")
        (root,) = Path(unpacked).iterdir()
        return [_hatchling("wheel", root, folder, epoch), sources]


def _hatchling(target: str, source: Path, folder: Path, epoch: int) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder.resolve())]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(words, cwd=source, env=environment, check=True, capture_output=True)
    (built,) = folder.glob("latchkey-*.whl" if target == "wheel" else "latchkey-*.tar.gz")
    return built
