"""Generates a constrained answer with ExLlamaV3.

pip install guided-decoding[tokenizers] exllamav3
python examples/exllamav3_generate.py MODEL_FOLDER
"""

from __future__ import annotations

import json
import sys
from typing import Any

from exllamav3 import Cache, Config, Generator, Model, Tokenizer

from guided.integrations.exllamav3 import GuidedFilter

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
BUDGET = 60


def main(folder: str) -> Any:
    """Print the answer, and return its value."""
    config = Config.from_directory(folder)
    model = Model.from_config(config)
    cache = Cache(model, max_num_tokens=4096)
    model.load()
    tokenizer = Tokenizer.from_config(config)
    generator = Generator(model=model, cache=cache, tokenizer=tokenizer)
    text = generator.generate(
        prompt="Ada is 36 years old. As JSON: ",
        filters=[GuidedFilter(SCHEMA, tokenizer, max_tokens=BUDGET)],
        max_new_tokens=BUDGET,
        stop_conditions=config.eos_token_id_list,
        completion_only=True,
    )
    print(text)
    return json.loads(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
