"""What the paper reports, and our own recorded runs beside it."""
