"""Public suites as oracles: no wrong verdict on any schema that compiles. Skipped if the data is missing."""

import json
import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary import Vocabulary

DRAFTS = {"draft4": 145, "draft6": 215, "draft7": 250, "draft2019-09": 360, "draft2020-12": 360}
"""Draft -> the least number of groups that must compile."""


def _data(name):
    roots = [Path(os.environ["GUIDED_ASSETS"])] if "GUIDED_ASSETS" in os.environ else []
    roots.append(Path(__file__).resolve().parents[2] / "shared")
    for root in roots:
        for folder in (root / name, root / "data" / name):
            if folder.is_dir():
                return folder
    pytest.skip(f"{name} is neither below $GUIDED_ASSETS nor in a folder `shared` beside the repository")


@cache
def _compiler():
    return GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256]))


def _compile(schema, **options):
    """The grammar; False for an empty language; None if a part is refused."""
    try:
        return _compiler().compile_json_schema(schema, property_order="any", **options)
    except (UnsupportedError, LimitExceeded):
        return None
    except SpecError as error:
        assert "no JSON value" in error.message or error.text, error
        return False


def _accepts(grammar, text):
    if grammar is False:
        return False
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
@pytest.mark.parametrize("draft", DRAFTS)
def test_json_schema_test_suite(draft):
    root = _data("json-schema-test-suite")
    remotes = root / "remotes"
    registry = {
        f"http://localhost:1234/{path.relative_to(remotes).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in remotes.rglob("*.json")
    }
    compiled, wrong = 0, []
    for path in sorted((root / draft).rglob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            name = draft if draft in ("draft4", "draft6", "draft7") else draft.removeprefix("draft")
            asserted = "annotate" if path.name == "format.json" else "assert"
            options = {"draft": name, "format": asserted, "unknown_format": "refuse"}
            grammar = _compile(group["schema"], registry=registry, **options)
            if grammar is None:
                continue
            compiled += 1
            for test in group["tests"]:
                text = json.dumps(test["data"])
                punycode = path.parent.name == "format" and "xn--" in text and test["valid"]  # all of it is refused
                named = path.name == "ecmascript-regex.json" and "named" in test["description"]  # named groups
                if _accepts(grammar, text) != test["valid"] and not punycode and not named:
                    wrong.append((path.name, group["description"], test["description"], text))
    assert not wrong
    assert compiled >= DRAFTS[draft]


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
def test_maskbench():
    """Every 12th real schema. Unknown formats are ignored here, so too much may be accepted, but never too little."""
    counts, wrong = Counter(), []
    for path in sorted(_data("maskbench").glob("*.json"))[::12]:
        case = json.loads(path.read_text("utf-8"))
        grammar = _compile(case["schema"], unknown_format="ignore")
        counts["refused" if grammar is None else "compiled"] += 1
        if grammar is None:
            continue
        for test in case["tests"]:
            verdict = _accepts(grammar, json.dumps(test["data"], indent=None, ensure_ascii=False))
            if verdict != test["valid"] and not (verdict and '"format"' in path.read_text("utf-8")):
                wrong.append((path.name, test["data"]))
    assert not wrong
    assert counts["compiled"] > 2 * counts["refused"]
