"""`guided serve`: an engine behind the APIs of OpenAI and Anthropic."""
