"""Errors of imputations and draws; Rubin's rules."""
