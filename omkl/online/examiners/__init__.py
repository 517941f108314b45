"""Parts that examine examples before they are learned: tests of groups and of streams."""
