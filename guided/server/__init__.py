"""`guided serve`: an engine behind OpenAI's interface."""
