"""Where keys and values live."""
