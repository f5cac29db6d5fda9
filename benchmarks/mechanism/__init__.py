"""Cells that hide by their own value: is it seen, what does it gain, and what does it cost where they do not?"""
