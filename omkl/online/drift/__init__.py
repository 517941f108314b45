"""Streams that drift: the test for a change, after which the average restarts."""
