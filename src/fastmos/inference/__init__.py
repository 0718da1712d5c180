"""A trained run: load it, translate, caption, score, sample, evaluate."""
