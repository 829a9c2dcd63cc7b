"""A program for outlines-core that runs on guided. Only the import differs.

Prints the tokens that a schema's index allows along a walk through it, and the effect of a rollback.

    python examples/compat_outlines_core.py                    on guided
    python examples/compat_outlines_core.py --outlines-core    on outlines-core itself, if it is installed
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from typing import Any

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
TOKENS = ["{", "}", '"ok"', ":", " ", "true", "false", "{}"]
END = len(TOKENS)


def run(core: Any) -> list[str]:
    """Run the program, and return the lines to print."""
    vocabulary = core.Vocabulary(END, {token: [number] for number, token in enumerate(TOKENS)})
    guide = core.Guide(core.Index(core.json_schema.build_regex_from_schema(json.dumps(SCHEMA)), vocabulary))
    out = []
    for token in ("{", '"ok"', ":", "true", "}"):
        allowed = [TOKENS[number] for number in sorted(guide.get_tokens()) if number != END]
        out.append(f"{token!r} of {allowed}")
        guide.advance(TOKENS.index(token))
    out.append(f"finished: {guide.is_finished()}, only the end is left: {guide.get_tokens() == [END]}")
    guide.rollback_state(2)
    out.append(f"two steps back, 'false' is allowed: {TOKENS.index('false') in guide.get_tokens()}")
    return out


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--outlines-core", action="store_true", help="use outlines-core itself")
    name = "outlines_core" if parser.parse_args().outlines_core else "guided.compat.outlines_core"
    print("\n".join(run(import_module(name))))


if __name__ == "__main__":
    main()
