"""The tags of `get_model_structural_tag`, for every style, choice of tools and reasoning mode."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import pytest

import guided
from tests.structural_tag_support import accepts, byte_compiler
from tests.test_structural_tag_calls import STYLES, TOOLS, XGRAMMARS, table

pytest.importorskip("torch")
pytest.importorskip("pydantic")
xgr = pytest.importorskip("guided.compat.xgrammar")

NAMED = {"type": "function", "function": {"name": "weather"}}
CHOICES: tuple[Any, ...] = ("auto", "none", "required", NAMED)
REASONING: tuple[Any, ...] = ("enabled", "disabled", "auto")
HOSTED = [{"type": f"hosted_{n}", "name": f"tool.f{n}", "parameters": {"type": "object"}} for n in range(12)]


@pytest.mark.parametrize("style", STYLES)
def test_every_tag_accepts_what_the_style_accepts(style: str) -> None:
    texts = sorted({row["text"] for rows in table(style).values() for row in rows})
    verdicts = set()
    for choice, reasoning in product(CHOICES, REASONING):
        options: Any = {"tool_choice": choice, "reasoning": reasoning}
        tag = xgr.get_model_structural_tag(style, TOOLS, **options)
        expected = byte_compiler().compile_structural_tag(guided.tool_style(style).structural_tag(TOOLS, **options))
        ours = byte_compiler().compile_structural_tag(tag.model_dump(exclude_none=True))
        for text in texts:
            verdict = accepts(expected, list(text.encode()))
            assert accepts(ours, list(text.encode())) == verdict, (options, text)
            verdicts.add(verdict)
    assert verdicts == {True, False}


@pytest.mark.parametrize("style", XGRAMMARS)
def test_xgrammar_compiles_every_tag(style: str) -> None:
    theirs = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    for choice, reasoning, hosted in product(CHOICES, REASONING, ([], HOSTED[:1])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # most styles cannot call hosted tools
            tag = xgr.get_model_structural_tag(style, [*TOOLS, *hosted], choice, reasoning)
        assert "root ::=" in str(theirs.Grammar.from_structural_tag(tag.model_dump_json()))


@pytest.mark.parametrize(("choice", "reasoning"), list(product(("auto", "required"), REASONING)))
def test_calls_of_hosted_tools(choice: str, reasoning: Any) -> None:
    tag = xgr.get_model_structural_tag("harmony", [*TOOLS, *HOSTED], choice, reasoning)
    grammars = [(xgr, xgr.Grammar.from_structural_tag(tag))]
    try:
        import xgrammar as theirs
    except ImportError:
        pass
    else:
        grammars.append((theirs, theirs.Grammar.from_structural_tag(tag.model_dump_json())))
        other = theirs.get_model_structural_tag(
            "harmony", tools=[*TOOLS, *HOSTED], tool_choice=choice, reasoning=reasoning
        )
        grammars.append((theirs, theirs.Grammar.from_structural_tag(other)))
    for number in (0, 1, 11):
        name = HOSTED[number]["name"]
        for library, grammar in grammars:
            for text, expected in (
                (f"<|channel|>commentary to={name} code<|message|>{{}}<|call|>", True),
                (f" to={name}<|channel|>commentary code<|message|>{{}}<|call|>", True),
                (f"<|channel|>commentary to={name}<|constrain|>json<|message|>{{}}<|call|>", False),
                (f"<|channel|>commentary to=functions.{name} code<|message|>{{}}<|call|>", False),
                ("<|channel|>commentary to=tool.f12 code<|message|>{}<|call|>", False),
            ):
                assert library.testing._is_grammar_accept_string(grammar, text) == expected, text
