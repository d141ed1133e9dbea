"""One worker pool for many jobs, on local processes or on Ray, and progress bars."""
