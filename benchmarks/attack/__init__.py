"""Attacks on the library, with counts of what came of them: damaged and forged models, kills, full disks, odd input."""
