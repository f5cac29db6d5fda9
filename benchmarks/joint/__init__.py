"""Draws for cells that are missing together: is what they say of one another true?"""
