"""The paper's tables and figures as data, the runs they need, and reports of recorded runs."""
