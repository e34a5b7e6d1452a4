"""What a release brings along: the packages of requirements.lock that its extras need, as CycloneDX 1.6."""

import hashlib
import json
import platform
import re
import sys
import uuid
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename


class Locked(NamedTuple):
    version: str
    hashes: list[str]


def write(source: Path, wheel: Path, epoch: int) -> Path:
    name, version, _, _ = parse_wheel_filename(wheel.name)
    path = wheel.with_name(f"{name}-{version}.cdx.json")
    path.write_text(json.dumps(_describe(source, wheel, epoch), indent=1) + "\n", encoding="utf-8")
    return path


def read_lock(path: Path) -> dict[str, Locked]:
    """Each package of a lock file that this system needs, with the hashes of the files that it may be."""
    found: dict[str, Locked] = {}
    for entry in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip()):
        requirement = Requirement(entry.partition("\\")[0])
        if requirement.marker is None or requirement.marker.evaluate():
            version = str(requirement.specifier).removeprefix("==")
            found[canonicalize_name(requirement.name)] = Locked(version, re.findall(r"sha256:(\w+)", entry))
    return found


def _describe(source: Path, wheel: Path, epoch: int) -> dict[str, Any]:
    lock = read_lock(source / "requirements.lock")
    ours = _metadata_of(wheel)
    needed = _closure(ours)
    refs = {
        package: _purl(package, str(ours.version) if package == ours.name else lock[package].version)
        for package in needed
    }
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    system = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": refs[ours.name],
                "name": ours.name,
                "version": str(ours.version),
                "description": ours.summary,
                "purl": refs[ours.name],
                "licenses": [{"expression": ours.license_expression}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
            # Another system or Python may need a package more or less.
            "properties": [{"name": "latchkey:resolved-for", "value": system}],
        },
        "components": [
            _component(package, lock[package], needed[package].extras)
            for package in sorted(needed)
            if package != ours.name
        ],
        "dependencies": [
            {"ref": refs[package], "dependsOn": sorted(refs[target] for target in needed[package].requires)}
            for package in sorted(needed)
        ],
    }


@dataclass
class Needed:
    """A package: the extras of ours that lead to it ("" is none), and the packages that it needs itself."""

    extras: set[str] = field(default_factory=set)
    requires: set[str] = field(default_factory=set)


def _closure(ours: Metadata) -> dict[str, Needed]:
    """Our package and all that an installer would install with it, on this system, for each extra."""
    found: dict[str, Needed] = defaultdict(Needed)
    for ours_extra in ("", *(ours.provides_extra or ())):
        waiting = [(str(ours.name), str(ours_extra))]
        seen = set(waiting)
        while waiting:
            package, extra = waiting.pop()
            found[package].extras.add(ours_extra)
            for requirement in ours.requires_dist or () if package == ours.name else _requirements(package):
                if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                    continue
                target = canonicalize_name(requirement.name)
                # An extra may be several others: latchkey[service,consumer].
                found[package].requires |= {target} - {package}
                new = {(str(target), inner) for inner in ("", *requirement.extras)} - seen
                seen |= new
                waiting += new
    return found


def _component(package: str, locked: Locked, extras: set[str]) -> dict[str, Any]:
    installed = distribution(package)
    if installed.version != locked.version:
        sys.exit(f"{package} {installed.version} is installed, the lock has {locked.version}. Run `make setup`.")
    purl = _purl(package, locked.version)
    hashes = [{"alg": "SHA-256", "content": digest} for digest in locked.hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package,
        "version": locked.version,
        "purl": purl,
        "scope": "required" if "" in extras else "optional",
        **_licences(package),
        # One hash for each file of the package that the lock accepts: wheels of several systems, and the source.
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": hashes}],
        "properties": [{"name": "latchkey:extra", "value": extra} for extra in sorted(extras - {""})],
    }


def _licences(package: str) -> dict[str, Any]:
    metadata = distribution(package).metadata
    if expressions := metadata.get_all("License-Expression"):
        return {"licenses": [{"expression": expressions[0]}]}
    classified = [
        one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier", []) if one.startswith("License ::")
    ]
    # Some packages have the whole text in this field.
    named = classified or [one for one in metadata.get_all("License", []) if "\n" not in one]
    return {"licenses": [{"license": {"name": one}} for one in named]} if named else {}


def _requirements(package: str) -> list[Requirement]:
    return [Requirement(text) for text in distribution(package).requires or ()]


def _metadata_of(wheel: Path) -> Metadata:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name))


def _purl(package: str, version: str) -> str:
    return f"pkg:pypi/{package}@{version}"
