"""Prediction of tables of any size in shards, which can be interrupted and shared among jobs."""
