"""Generates constrained answers with the `generate` method of transformers.

pip install guided-decoding[tokenizers] transformers torch
python examples/transformers_generate.py MODEL
"""

from __future__ import annotations

import json
import sys
from typing import Literal, TypedDict

from transformers import AutoModelForCausalLM, AutoTokenizer

from guided.integrations.transformers import GuidedLogitsProcessor, vocabulary_of

PROMPTS = ["A red apple, as JSON: ", "A yellow lemon, as JSON: "]
BUDGET = 60


class Fruit(TypedDict):
    """The type of each answer."""

    name: str
    colour: Literal["red", "yellow", "green"]


def main(name: str) -> list[Fruit]:
    """Print the answers, and return their values."""
    tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    processor = GuidedLogitsProcessor(Fruit, vocabulary_of(tokenizer, model), max_new_tokens=BUDGET)
    prompts = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    output = model.generate(**prompts, logits_processor=[processor], max_new_tokens=BUDGET, do_sample=False)
    answers = tokenizer.batch_decode(output[:, prompts.input_ids.shape[1] :], skip_special_tokens=True)
    for answer in answers:
        print(answer)
    return [json.loads(answer) for answer in answers]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
