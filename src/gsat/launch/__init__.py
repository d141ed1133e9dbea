"""Many jobs at a time: one worker pool, on local processes or on Ray, and progress bars."""
