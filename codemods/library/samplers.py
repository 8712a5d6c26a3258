"""Samplers of torch: what they read anew for each batch, and so see while the loop over their loader changes it."""

from __future__ import annotations

# The others draw all indices of an epoch when they are asked for the first one, or read nothing that can change.
_READ_FOR_EACH_BATCH = {
    "torch.utils.data.BatchSampler": frozenset({"batch_size"}),
    "torch.utils.data.SubsetRandomSampler": frozenset({"indices"}),
}


def read_for_each_batch(name: str) -> frozenset[str]:
    """The attributes that a sampler of the class of that qualified name reads after it yielded its first index."""
    return _READ_FOR_EACH_BATCH.get(name, frozenset())
