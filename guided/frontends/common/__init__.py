"""The common part of several front ends: a table for the rules of many grammars, searches in
automata, lint findings.
"""
