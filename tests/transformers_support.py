"""A small model and tokenizer of transformers, with random weights: a token for each byte, and some longer ones."""

from __future__ import annotations

import tokenizers
import torch
import transformers

MERGES = [("t", "r"), ("tr", "u"), ("tru", "e"), ("1", "2"), ('"', ":"), ("a", "b"), ("ab", "c"), ("Ġ", "a")]


def small_tokenizer(*, backwards: bool = False) -> transformers.PreTrainedTokenizerFast:
    """`backwards`: the bytes have other ids."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet(), reverse=backwards)
    vocabulary = {token: id for id, token in enumerate([*alphabet, *("".join(pair) for pair in MERGES)])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, MERGES))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["<eos>", "<pad>"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


def small_model(tokenizer: transformers.PreTrainedTokenizerFast, *, seed: int = 0) -> transformers.LlamaForCausalLM:
    """It has logits for some more ids than the tokenizer has, as many models do."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer) + 6, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(3)  # sharper choices
    return model
