"""The routes, by whom they are for. Each module adds its own to the application: `add(app, server)`."""
