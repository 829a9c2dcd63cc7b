"""The meaning of schemas: the sets of values that they allow, with conjunctions, complements, conditions and counts."""
