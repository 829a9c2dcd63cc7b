"""Descriptions of specifications for a model's prompt: what the answer should look like.

In: a compiled grammar. Out: a short text, or None if there is nothing to say. A mask controls the form of an answer
whether or not the model knows it. A model that knows the form writes better content, because the mask removes less of
what it intended to write.
"""

from guided.describe.specification import Description, describe

__all__ = ["Description", "describe"]
