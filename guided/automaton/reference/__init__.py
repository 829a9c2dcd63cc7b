"""The readable twin of the native core: the same language, by definition."""
