"""Anthropic's Messages API, on top of chat completions: requests, events, errors."""
