"""Generates a constrained completion with llama-cpp-python.

pip install guided-decoding[llama-cpp]
python examples/llama_cpp_completion.py MODEL.gguf
"""

from __future__ import annotations

import json
import sys
from typing import Any

from llama_cpp import Llama

from guided.integrations.llama_cpp import GuidedLogitsProcessor, LogitsProcessorList

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
BUDGET = 60


def main(path: str) -> Any:
    """Print the answer, and return its value."""
    llama = Llama(path, n_ctx=1024, verbose=False)
    processor = GuidedLogitsProcessor(SCHEMA, llama, max_tokens=BUDGET)
    answer = llama.create_completion(
        "Ada is 36 years old. As JSON: ",
        logits_processor=LogitsProcessorList([processor]),
        max_tokens=BUDGET,
        temperature=0.0,
    )
    text = answer["choices"][0]["text"]
    print(text)
    return json.loads(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
