"""The front ends. Each turns one kind of specification into a grammar."""
