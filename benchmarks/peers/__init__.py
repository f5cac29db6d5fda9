"""`vsae bench peers`: other imputers and ours on the same holes, each in a process and an environment of its own."""
