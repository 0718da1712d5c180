"""Small tasks that show the library at work in a few minutes."""
