"""OpenAI's interface: requests in, answers and events out."""
