"""What several front ends share: rules of many grammars in one table, searches in automata, findings of lint."""
