"""Labels of the nodes of graphs: the estimator, its codec, decoding."""
