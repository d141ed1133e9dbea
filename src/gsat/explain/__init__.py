"""Adapters to ``torch_geometric.explain``, and post-hoc explainers on a user's network."""
