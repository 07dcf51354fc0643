"""Prediction of tables of any size in shards. A screening can be interrupted, and divided among
jobs.
"""
