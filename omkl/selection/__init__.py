"""Selection of groups with a bound on the useless ones among them."""
