"""Grammars of public languages, notations and formats: name -> text, texts that Lark parses, texts that it refuses.

Lark's grammar of its own notation comes from the package, except for two terminals with lookaheads, which are refused.
The others are written here.
"""

from __future__ import annotations

import re
from pathlib import Path

import lark

from tests.lark_documents import DOCUMENTS
from tests.lark_formats import FORMATS
from tests.lark_notations import NOTATIONS
from tests.lark_programs import PROGRAMS

WITHOUT_LOOKAHEADS = {"OP": "/[+*?]/", "REGEXP": r"/\/([^\/\\\n]|\\.)+\/[imslux]*/"}


def _lark() -> str:
    text = (Path(lark.__file__).parent / "grammars" / "lark.lark").read_text(encoding="utf-8")
    for name, pattern in WITHOUT_LOOKAHEADS.items():
        text, count = re.subn(rf"(?m)^{name}:.*", lambda _, line=f"{name}: {pattern}": line, text)
        assert count == 1, name
    return text


LARK = (
    _lark(),
    [
        'start: "a"\n',
        "?a.2: b+ -> c\n | [d]~2..3\nB: /x/i // note\n",
        "%import common.INT -> N\n%ignore N\n",
        "a{x}: x\n",
    ],
    ["start", "start: (\n", "start: /a\n", "1: a\n", "%import\n", "a: b}\n"],
)
PUBLIC = {**PROGRAMS, **DOCUMENTS, **FORMATS, **NOTATIONS, "lark": LARK}
