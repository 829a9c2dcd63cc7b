"""Generates a constrained answer with mlx-lm.

pip install guided-decoding[mlx-lm]          # on Linux also: pip install "mlx[cpu]"
python examples/mlx_lm_generate.py MODEL
"""

from __future__ import annotations

import json
import sys
from typing import Any

import mlx_lm

from guided.integrations.mlx_lm import GuidedLogitsProcessor

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
BUDGET = 60


def main(name: str) -> Any:
    """Print the answer, and return its value."""
    model, tokenizer, *_ = mlx_lm.load(name)
    processor = GuidedLogitsProcessor(SCHEMA, tokenizer, max_tokens=BUDGET)
    prompt = "Ada is 36 years old. As JSON: "
    text = mlx_lm.generate(model, tokenizer, prompt, logits_processors=[processor], max_tokens=BUDGET)
    print(text)
    return json.loads(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
