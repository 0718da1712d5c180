"""Trained runs behind HTTP: a server that batches requests, and a page to type into."""
