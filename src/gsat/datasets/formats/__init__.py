"""File formats that graphs can be read from."""
