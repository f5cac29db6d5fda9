"""The report: one self-contained HTML file on a table and its imputation. `VSAEImputer.report` makes it."""

from vsae.report.report import Report

__all__ = ["Report"]
