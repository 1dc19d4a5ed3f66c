"""Named SQL, and the functions that run it."""
