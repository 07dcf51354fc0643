"""Networks that exceed a memory budget: compact edges, sampled neighbourhoods, and parts on
disk.
"""
