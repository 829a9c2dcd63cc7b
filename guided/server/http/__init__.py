"""HTTP: access control, limits on requests, logs and metrics. It does not depend on OpenAI's fields."""
