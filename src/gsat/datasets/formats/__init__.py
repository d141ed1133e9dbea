"""File formats that graphs are read from."""
