"""Code that several front ends share: a table for the rules of many grammars, searches in automata, lint findings."""
