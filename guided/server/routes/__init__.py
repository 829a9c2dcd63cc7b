"""The routes, grouped by their users. Each module adds its own to the application: `add(app, server)`."""
