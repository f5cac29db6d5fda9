"""Tables that are larger than memory, or than one machine. An engine only decides who fills which block."""
