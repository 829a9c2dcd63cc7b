"""Shapes as text: how values are spelled, containers written, and rules made."""
