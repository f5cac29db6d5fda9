"""vsae"""
