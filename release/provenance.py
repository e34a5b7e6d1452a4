"""How a release was made, as an in-toto statement with SLSA provenance: from which commit, by what, which files.

It is not signed. It says what to do to get the same files; who trusts nobody builds them and compares.
"""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Types and builders are named by URIs; nothing has to be there.
BUILD = "urn:latchkey:make-dist"


def write(source: Path, files: list[Path], commit: str, epoch: int) -> Path:
    path = files[0].with_name(f"{files[0].name.split('-py3-')[0]}.provenance.json")
    path.write_text(json.dumps(_describe(source, files, commit, epoch), indent=1) + "\n", encoding="utf-8")
    return path


def _describe(source: Path, files: list[Path], commit: str, epoch: int) -> dict[str, Any]:
    locks = [{"name": name, "digest": _digest(source / name)} for name in ("requirements.lock", "requirements-uv.lock")]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": _digest(file)} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {"command": "make dist", "environment": {"SOURCE_DATE_EPOCH": str(epoch)}},
                "resolvedDependencies": [{"name": "repository", "digest": {"gitCommit": commit}}, *locks],
            },
            "runDetails": {
                "builder": {
                    "id": BUILD,
                    "version": {
                        "python": platform.python_version(),
                        "system": f"{platform.system()} {platform.machine()}",
                        **{tool: version(tool) for tool in ("hatchling", "packaging")},
                    },
                }
            },
        },
    }


def _digest(file: Path) -> dict[str, str]:
    return {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
