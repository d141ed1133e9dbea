"""Explanations by and for torch_geometric.explain, and post-hoc explainers."""
