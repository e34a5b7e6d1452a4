"""`latchkey config`: a project's configuration in a file. Against a running service over HTTPS, or the database."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
import yaml
from msgspec import convert, json

from latchkey.cli import output, secret_key
from latchkey.cli.command import Options, Printer, argument, command, flag
from latchkey.cli.output import JsonOption, YesOption
from latchkey.cli.project_command import ACTOR, ProjectContext, ProjectOption, project_context
from latchkey.cli.service_client import ServiceClient
from latchkey.cli.target_database import DATA, ConfigOption, DataOption
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.now import real_now
from latchkey.subjects.configuration import wire
from latchkey.subjects.configuration.rules import references
from latchkey.subjects.configuration.usecases import planning
from latchkey.subjects.configuration.usecases.document import schema
from latchkey.subjects.webhooks.usecases.registry import Registry, registry_of

app = typer.Typer(no_args_is_help=True)

KEY = "LATCHKEY_API_KEY"
FILE = argument("The file, in YAML. - is stdin.", metavar="FILE")
PRUNE = flag("Also delete what is not in the file, in the sections that it has.", "--prune")
UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="LATCHKEY_URL", help=f"A running service, with a secret key in {KEY}."),
]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca", help="Trust this certificate authority, too (PEM).", exists=True, dir_okay=False),
]
# As it is written out: an alias repeats what it stands for, and aliases of aliases grow without limit.
MOST_CHARACTERS = 10_000_000
# A plan counts customers for some seconds.
TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class ConfigDesk(Printer):
    """`pull` returns the document; `plan` and `apply` take a body of the API, and return a plan."""

    ask: Callable[[str, dict[str, Any]], Awaitable[Any]]


@asynccontextmanager
async def config_desk(
    url: UrlOption = None,
    ca: CaOption = None,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> AsyncIterator[ConfigDesk]:
    if url is not None:
        if not (key := os.environ.get(KEY, "")):
            raise Refusal(f"{KEY} is missing. Set it to a secret key of the project.")
        async with ServiceClient(url, key, ca.read_bytes() if ca is not None else None, timeout=TIMEOUT) as service:
            # A key belongs to one project, so nobody has to name it.
            project = project or (await service.ask("GET", "/v2/projects"))["items"][0]["id"]
            yield ConfigDesk(as_json, _over_https(service, project))
        return
    async with project_context(project, config, data, as_json) as at:
        webhooks = registry_of(at.database, await secret_key.checked(at))
        yield ConfigDesk(as_json, _in_database(at, webhooks))


def _in_database(at: ProjectContext, webhooks: Registry) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    async def ask(doing: str, body: dict[str, Any]) -> Any:
        if doing == "pull":
            return await planning.load_document(webhooks, at.project_id)
        wish = planning.Wish(body.pop("config"), **body, actor=ACTOR)
        if doing == "plan":
            return await planning.plan(webhooks, at.project_id, wish, real_now())
        async with at.audited("config.applied", "config"):
            return await planning.apply(webhooks, at.project_id, wish, real_now())

    return ask


def _over_https(service: ServiceClient, project: str) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    path = f"/v2/projects/{project}/config"

    async def ask(doing: str, body: dict[str, Any]) -> Any:
        if doing == "pull":
            return (await service.ask("GET", path))["config"]
        return convert(await service.ask("POST", f"{path}/{doing}", body), wire.ConfigPlan)

    return ask


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """Refuses keys that are there twice, of which YAML would take the last."""

    # Dates stay texts, as in JSON.
    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if _characters(node, {}) > MOST_CHARACTERS:
            raise Invalid(f"With what its aliases repeat, the file has more than {MOST_CHARACTERS:,} characters.")
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            name = self.construct_object(key, deep=True)
            where = f"line {key.start_mark.line + 1}"
            if not isinstance(name, str):
                raise Invalid(f"{where}: The key {key.value!r} is not a text. Write it in quotes.")
            if name in seen:
                raise Invalid(f"{where}: {name!r} is there twice.", param=name)
            seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_undefined(self, node: Any) -> Any:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise Invalid(f"line {node.start_mark.line + 1}: The tag {tag} means nothing here. Remove it.")

    yaml_constructors: ClassVar = {**yaml.SafeLoader.yaml_constructors, None: construct_undefined}


def _characters(node: Any, known: dict[Any, int]) -> int:
    """Of a value of YAML, written out. `known`: of the nodes that were counted. What is inside itself ends there."""
    if node is not None and node not in known:
        known[node] = 1
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[node] += len(parts) if isinstance(parts, str) else sum(_characters(one, known) for one in parts)
    return known.get(node, 0)


def read(file: str) -> dict[str, Any]:
    """The document in a file."""
    text = output.read_secret(file)
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - it is a safe loader
        json.decode(json.encode(document))
    except yaml.YAMLError as error:
        raise Invalid(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, TypeError, ValueError, LookupError, AttributeError):
        raise Invalid(f"{file} has values that JSON cannot have.") from None
    if not isinstance(document, dict):
        raise Invalid(f"{file} has no sections, such as `products:`.")
    return document


def written(document: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return "# Written by `latchkey config pull`. Secrets are left out: they stay as they are.\n" + text


def _write(file: Path, text: str, *, replaces: bool) -> None:
    if file.exists() and not replaces:
        raise Refusal(f"{file} exists. Replace it with --force.")
    file.write_text(text)
    output.told(f"[green]✓[/green] The configuration is in {output.plain(str(file))}.")


@command(app, "pull", config_desk)
async def pull(
    at: ConfigDesk,
    file: str = argument("Where to write it. - is stdout.", default="-", metavar="FILE"),
    force: bool = flag("Replace the file.", "--force"),
) -> None:
    """Write the project's configuration to a file, without secrets."""
    document = await at.ask("pull", {})
    if at.as_json:
        output.write(document)
    elif file == "-":
        sys.stdout.write(written(document))
    else:
        _write(Path(file), written(document), replaces=force)


@command(app, "plan", config_desk)
async def plan(at: ConfigDesk, file: str = FILE, prune: bool = PRUNE) -> None:
    """Show what `apply` would change, and how many customers would gain and lose access. Changes nothing."""
    show(at, await at.ask("plan", wanted_by(file, prune=prune)))


@command(app, "apply", config_desk)
async def apply(at: ConfigDesk, file: str = FILE, prune: bool = PRUNE, yes: YesOption = False) -> None:
    """Make the project like the file: all of it, or nothing. Shows the plan and asks first."""
    wanted = wanted_by(file, prune=prune)
    planned = await at.ask("plan", {**wanted})
    if not at.as_json:
        show(at, planned)
    if planned.changes:
        output.confirm("Apply these changes?", yes=yes, as_json=at.as_json)
    applied = await at.ask("apply", {**wanted, "fingerprint": planned.fingerprint})
    if at.as_json:
        output.write(applied)
    elif applied.changes:
        output.console().print("[green]✓[/green] Applied.")


@command(app, "schema", Options)
async def print_schema(_: Options) -> None:
    """Print the JSON Schema of the file, for editors."""
    output.write(schema())


def wanted_by(file: str, *, prune: bool) -> dict[str, Any]:
    """What the API is asked for."""
    document = read(file)
    variables = {name: os.environ[name] for name in references(document) if name in os.environ}
    return {"config": document, "variables": variables, "prune": prune}


_SIGNS = {"create": "[green]+[/green]", "update": "[yellow]~[/yellow]", "delete": "[red]-[/red]"}


def show(at: ConfigDesk, plan: wire.ConfigPlan) -> None:
    lines = []
    for change in plan.changes:
        lines.append(f"{_SIGNS[change.action]} {output.plain(change.path)}")
        for field in change.fields:
            # Of what is new, the fields that have a value.
            if change.action == "create" and field.after in (None, "", [], {}):
                continue
            before = "" if change.action == "create" else f"{_value(field.before)} → "
            lines.append(f"    {output.plain(field.name)}: {before}{_value(field.after)}")
    if not plan.changes:
        lines.append("Nothing would change.")
    for one in plan.left_alone:
        reason = f": {output.plain(one.reason)}" if one.reason else ""
        lines.append(f"[dim]  {output.plain(one.path)} is not in the file, and stays as it is{reason}[/dim]")
    lines += _access(plan.access)
    at.say(plan, *lines)


def _access(access: wire.AccessChange | None) -> list[str]:
    if access is None:
        return []
    said = [
        f"{count:,} customers {verb} {output.plain(entitlement)}"
        for verb, counts in (("gain", access.gains), ("[bold red]lose[/bold red]", access.losses))
        for entitlement, count in sorted(counts.items())
    ]
    if access.counted_share < 1:
        said.append(f"Only {access.counted_share:.0%} of the customers were counted in time: there may be more.")
    return said or ["No customer gains or loses access."]


def _value(value: Any) -> str:
    return output.plain(value if isinstance(value, str) else json.encode(value).decode())
