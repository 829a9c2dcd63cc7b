"""`guided models`: the models that have a short name, and which of them are downloaded.

In: nothing, or names to download. Out: a table, or JSON. Models given by a path or by a name on the hub are not listed.
"""

from __future__ import annotations

import argparse
from typing import Any

from guided.cli.console import DONE, print_json

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "models"
USAGE = "[--fetch NAME ...] [OPTION ...]"
HELP = "list the models that have a short name, or fetch them"
PURPOSE = (
    "List the models that have a short name: their size, their licence, and where they are stored. A model is fetched\n"
    "when it is first used. --fetch fetches it now, for example for a container image or an offline machine."
)
EXAMPLES = """examples:
  guided models
  guided models --json
  guided models --fetch qwen2.5-coder-0.5b-instruct
  guided models --fetch smollm2-135m-instruct qwen2.5-coder-0.5b-instruct --quiet

The cache is $GUIDED_CACHE, or guided/ below $XDG_CACHE_HOME or ~/.cache. The SHA-256 of a file is verified when it is
fetched, and again by --fetch. To use another model, give its path, or its name org/model on the Hugging Face hub.
exit codes: 0 done; 2 bad input, or a model cannot be fetched
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument_group("models").add_argument(
        "--fetch",
        nargs="+",
        metavar="NAME",
        help="fetch these models, or verify them if they are in the cache; then list them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from guided.files.hub import cache_directory, fetch_model, model_names

    for name in arguments.fetch or ():
        fetch_model(name)
    names = model_names() if arguments.fetch is None else dict.fromkeys(name.lower() for name in arguments.fetch)
    rows = [_make_row(name) for name in names]
    if arguments.json:
        print_json({"cache": str(cache_directory()), "models": rows})
    else:
        _show(rows)
    return DONE


def _make_row(name: str) -> dict[str, Any]:
    """A model's entry in JSON. Its path is None if it has not been downloaded."""
    from guided.files.hub import cached_model
    from guided.files.known_models import MODELS, SHIPPED

    if name in SHIPPED:
        shipped = SHIPPED[name]
        size = sum(file.stat().st_size for file in shipped.folder.iterdir())
        row = {"name": name, "size": size, "licence": shipped.licence, "about": shipped.about}
        return row | {"path": str(shipped.folder), "source": "part of guided", "sha256": None}
    entry, path = MODELS[name], cached_model(name)
    row = {"name": name, "size": entry.size, "licence": entry.licence, "about": entry.about}
    return row | {"path": path and str(path), "source": str(entry.source), "sha256": entry.sha256}


def _show(rows: list[dict[str, Any]]) -> None:
    """Print a line for each model, with its description below it."""
    table = [("name", "size", "licence", "location", "")]
    for row in rows:
        is_shipped = row["sha256"] is None
        location = row["source"] if is_shipped else row["path"] or "not in the cache; fetched when it is first used"
        table.append((row["name"], f"{row['size'] / 1e6:,.0f} MB", row["licence"], location, f"\n  {row['about']}"))
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    for name, size, licence, location, about in table:
        print(f"{name:{widths[0]}}  {size:>{widths[1]}}  {licence:{widths[2]}}  {location}{about}")
