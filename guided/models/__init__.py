"""Models: weights in, logits out. They know neither caches nor attention kernels: `Attend` is handed to them."""
