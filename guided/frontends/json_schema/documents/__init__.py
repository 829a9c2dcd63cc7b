"""Reading schemas: JSON values with their places, references, dialects, keywords."""
