"""Text files to memory-mapped tokens to batches; downloads and preprocessing of corpora."""
