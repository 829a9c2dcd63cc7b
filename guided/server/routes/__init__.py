"""The routes, grouped by their users. Each module adds its routes to the application: `add(app, server)`."""
