"""The data for the inspector's page: a specification, and one step of an output."""
