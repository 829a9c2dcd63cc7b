"""Models: token ids in, logits out. They depend on no cache or attention kernel, since `Attend` is an argument."""
