"""guided: constrained decoding. What the model writes satisfies the specification."""
