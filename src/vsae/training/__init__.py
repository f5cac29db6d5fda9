"""The bound, its two steps, and the loop around them."""
