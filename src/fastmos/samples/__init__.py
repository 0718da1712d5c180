"""Generated data that needs no download: German-English sentences of a grammar, and drawings with captions."""
