"""OpenAI's API: requests in, answers and events out."""
