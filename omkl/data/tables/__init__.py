"""Reading and writing rows: CSV, Parquet, Arrow, data frames, svmlight, and NumPy's files."""
