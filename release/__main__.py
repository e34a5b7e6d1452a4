"""`make dist`: a release of the last commit. What is not committed is not in it, so no secret of a checkout can be."""

import argparse
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from release import bill_of_materials, provenance
from release.distributions import build

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where the files go (dist)")
    folder: Path = parser.parse_args().folder
    commit, epoch = _git("log", "-1", "--format=%H %ct").decode().split()
    if changed := _git("status", "--porcelain").decode().splitlines():
        print(f"Not in this release, because not committed: {len(changed)} files.")
    with tempfile.TemporaryDirectory() as source:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", "HEAD"))) as archive:
            archive.extractall(source, filter="data")
        files = build(Path(source), folder, int(epoch))
        files.append(bill_of_materials.write(Path(source), files[0], int(epoch)))
        files.append(provenance.write(Path(source), files, commit, int(epoch)))
    for file in files:
        print(f"{file.stat().st_size:>9,}  {file}")
    print(f"Try it: uvx --from {files[0]} latchkey up")


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main()
