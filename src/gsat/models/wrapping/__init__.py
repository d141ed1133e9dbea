"""PyG networks as backbones (``wrap``), and GSAT models as PyG models (``pyg_model``)."""
