"""HTTP, for the routes of all APIs: access control, limits on requests, errors, logs, metrics and traces."""
