"""Reading schemas: JSON values with their locations, references, dialects, keywords."""
