"""What batch solvers share: problems, certificates, the record of a search, regularization paths."""
