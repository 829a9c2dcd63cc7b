"""Echoed prompts: with `echo`, the text of a completion begins with its prompt. In: a prompt. Out: its text and tokens.

With `logprobs`, the answer also contains the log probability of each token of the prompt, given the tokens before it.
The first token has no probability, so its entries in `token_logprobs` and `top_logprobs` are null, as in OpenAI's API
and in vLLM. With `max_tokens: 0`, the model only reads the prompt. Evaluation harnesses compare texts this way
(lm-evaluation-harness, `local-completions`).

    "echo": true, "logprobs": 1, "max_tokens": 0     ->  "text": "The sky is blue"
                                                         "tokens": ["The", " sky", " is", " blue"]
                                                         "token_logprobs": [null, -7.2, -1.1, -3.0]

Cost: the model's output layer runs for each position of the prompt, and a prompt is read again even if it is in the
cache. The engine holds the logits of at most 128 positions at a time (guided/engine/scores.py). `MAX_SCORES` limits the
size of an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from guided.engine.request import Prompt
from guided.sampling.logprobs import TokenLogprobs
from guided.server.http.errors import RequestError
from guided.server.openai.attribution import ShownToken
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["MAX_SCORES", "EchoedPrompt", "check_scores"]

MAX_SCORES: Final = 1 << 19  # log probabilities of all prompts of a request; each takes 230 to 540 bytes


@dataclass(frozen=True, slots=True)
class EchoedPrompt:
    """A prompt that the text of an answer begins with.

    Attributes:
        text: the prompt; if it consists of token ids, their text without control tokens.
        tokens: the ids that the model reads.
        offset: the character offset at which the first token begins; negative if the tokenizer added a space before the
            text.
    """

    text: str
    tokens: Sequence[int]
    offset: int = 0

    @classmethod
    def from_tokens(cls, prompt: Prompt, tokens: Sequence[int], vocabulary: Vocabulary) -> EchoedPrompt:
        """The echo of a prompt that the model reads as `tokens`."""
        decoded_text = vocabulary.decode(tokens).decode("utf-8", "replace")
        if not isinstance(prompt, str):
            return cls(decoded_text, tokens)
        return cls(prompt, tokens, len(prompt) - len(decoded_text) if decoded_text.endswith(prompt) else 0)

    def shown_tokens(self, logprobs: Sequence[TokenLogprobs | None]) -> list[ShownToken]:
        """The tokens as part of an answer. `logprobs`: the log probabilities of each token; empty if not requested."""
        scores = logprobs or (None,) * len(self.tokens)
        return [ShownToken(id, True, score, is_prompt=True) for id, score in zip(self.tokens, scores, strict=True)]


def check_scores(lengths: Sequence[int], samples: int, top: int) -> None:
    """Check that the log probabilities of the prompts fit into one answer.

    Args:
        lengths: the number of tokens of each prompt.
        samples: the number of answers to each prompt.
        top: for each token, the number of other tokens whose log probabilities are reported.

    Raises:
        RequestError: there are too many log probabilities.
    """
    if (score_count := sum(lengths) * samples * (top + 1)) > MAX_SCORES:
        message = f"the prompts have {sum(lengths)} tokens: with n={samples} and logprobs={top}, the answer would have "
        hint = (
            f"{score_count} log probabilities, and at most {MAX_SCORES} are possible: send fewer prompts in one request"
        )
        raise RequestError(message + hint, param="logprobs")
