"""Feature templates of dependency arcs: their language, the named sets, and the bank of hashed
weights.
"""
