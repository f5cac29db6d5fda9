"""Generated rows against real ones: ours and other generators, fitted on the same incomplete rows."""
