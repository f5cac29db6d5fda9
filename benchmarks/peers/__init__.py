"""Other imputers and ours on the same missing cells, each in a process and an environment of its own."""
