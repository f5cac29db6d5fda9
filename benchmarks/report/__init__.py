"""Reports: how long they take, how large they are, and how they look."""
