"""Does `evaluate` predict the error on cells that are truly hidden?"""
