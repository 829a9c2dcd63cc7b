"""guided inside other systems: one module or folder for each system. `import guided` imports none of them."""
