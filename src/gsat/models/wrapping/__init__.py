"""Any PyTorch Geometric network as a backbone."""
