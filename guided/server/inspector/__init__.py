"""The data of the inspector's page: a specification, and one step of an output."""
