"""Models: weights in, logits out. They depend neither on caches nor on attention kernels: `Attend` is an argument."""
