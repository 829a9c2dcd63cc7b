"""What the inspector's page shows: a specification, and one step of an output."""
