"""Audits: tests of the faithfulness of explanations without ground truth."""
