"""HTTP: who may come in, how much a request may be, what is logged and counted. It knows nothing of OpenAI's fields."""
