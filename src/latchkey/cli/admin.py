"""`latchkey admin`: what operators need seldom."""

from __future__ import annotations

import typer

from latchkey.cli import charts, customer_list
from latchkey.cli.after_restore import after_restore
from latchkey.cli.copying import copy_database

app = typer.Typer(
    help="For operators: after a restore, the move into a Citus cluster, sums and lists computed anew.",
    no_args_is_help=True,
)
app.command("after-restore")(after_restore)
app.command("copy-database")(copy_database)
app.command("rebuild-charts")(charts.rebuild)
app.command("rebuild-lists")(customer_list.rebuild_lists)
