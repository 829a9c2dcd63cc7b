"""How far samples are from the model's distribution, conditioned on the specification.

    python -m benchmarks.exact_sampling --samples 2500

In: a model and three languages with few texts. Out: for `sampling="masked"` and `sampling="exact"` the total variation
distance between the frequencies of the outputs and their probabilities, and the forward passes of a sample.

How: all outputs, in all tokenizations, are enumerated by walking the masks. The probability of an output is the product
of the model's probabilities of its tokens and of the end, divided by the sum over all outputs. Prefixes with a
probability below 1e-7 of the largest are left out; the table shows the share that they could have at most. The distance
of a perfect sampler, from the same number of draws, is printed for comparison.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

import guided
from guided.cli.model import DEFAULT_MODEL
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens

_SMALLEST: Final = 1e-7
_LANGUAGES: Final[dict[str, tuple[str, Any]]] = {
    "one of six weekdays": (
        "Answer with a day of the week. When do we meet?",
        guided.choice("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    ),
    "an object of two members": (
        "Answer with JSON. What should the shirt be like?",
        {
            "type": "object",
            "properties": {"size": {"enum": ["small", "large"]}, "striped": {"type": "boolean"}},
            "required": ["size", "striped"],
        },
    ),
    "an array of up to three booleans": (
        "Answer with a JSON array. Which of the switches are on?",
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    ),
}
Tokens = tuple[int, ...]


class _Outputs(NamedTuple):
    """The probability of each output, and the share of those that were left out, at most."""

    chances: Mapping[Tokens, float]
    left_out: float


def enumerate_outputs(engine: guided.Engine, prompt: Sequence[int], grammar: guided.CompiledGrammar) -> _Outputs:
    """All outputs of a language, with their probabilities."""
    vocabulary = engine.vocabulary
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    ends = list(vocabulary.eos_token_ids)
    outputs, left_out = dict[Tokens, float](), 0.0
    waiting: list[tuple[Tokens, float]] = [((), 1.0)]
    while waiting:
        tokens, chance = waiting.pop()
        matcher = guided.GrammarMatcher(grammar)
        if not all(map(matcher.accept_token, tokens)):
            raise RuntimeError("the mask allowed a token that the matcher refuses")
        matcher.fill_next_token_bitmask(bitmask)
        logits = engine.logits([*prompt, *tokens])[0, : vocabulary.size]
        chances = torch.softmax(logits.double(), 0)
        if matcher.is_accepting():
            outputs[tokens] = chance * float(chances[ends].sum())
        most = max(outputs.values(), default=0.0)
        for token in allowed_tokens(bitmask):
            if token not in ends:
                following = chance * float(chances[token])
                if following > most * _SMALLEST:
                    waiting.append(((*tokens, token), following))
                else:
                    left_out += following
    total = sum(outputs.values())
    return _Outputs({tokens: chance / total for tokens, chance in outputs.items()}, left_out / total)


def distance(drawn: Sequence[Tokens], outputs: Mapping[Tokens, float]) -> float:
    """The total variation distance between frequencies and probabilities."""
    counts = Counter(drawn)
    return sum(abs(counts[one] / len(drawn) - outputs.get(one, 0.0)) for one in {*counts, *outputs}) / 2


def main() -> None:
    """Measure each language, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name or a path")
    parser.add_argument("--samples", type=int, default=2500, help="samples of each language and mode (2500)")
    arguments = parser.parse_args()
    engine = guided.Engine.from_pretrained(arguments.model)
    print("| language | outputs | left out | draws of the probabilities | masked | exact | passes, masked | exact |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for name, (text, specification) in _LANGUAGES.items():
        prompt = engine.encode_prompt([{"role": "user", "content": text}])
        grammar = engine.compiler.compile(specification, style="generation")
        outputs, left_out = enumerate_outputs(engine, prompt, grammar)
        perfect = random.Random(0).choices(list(outputs), list(outputs.values()), k=arguments.samples)
        cells = [name, str(len(outputs)), f"{left_out:.0e}", f"{distance(perfect, outputs):.3f}"]
        passes = list[str]()
        for mode in ("masked", "exact"):
            results = engine.generate(
                prompt,
                grammar,
                n=arguments.samples,
                temperature=1.0,
                seed=1,
                max_tokens=40,
                sampling=mode,
                budget_ramp=0.0,
            )
            cells.append(f"{distance([tuple(one.tokens) for one in results], outputs):.3f}")
            passes.append(f"{sum(1 + len(one.timings.forward) for one in results) / len(results):.1f}")
        print(f"| {' | '.join([*cells, *passes])} |", flush=True)


if __name__ == "__main__":
    main()
