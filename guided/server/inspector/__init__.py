"""The data for the inspector's page: about a specification, and about one step of an output."""
