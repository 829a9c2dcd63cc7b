"""The interfaces of other libraries, implemented with guided: a program changes only its import."""
