"""Raw files: finding, downloading, unpacking and reading them safely."""
