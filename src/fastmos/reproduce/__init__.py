"""Experiments: what the heads can do, and the paper's tables and figures."""
