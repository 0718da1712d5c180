"""Learning a table: what words cost in each row and column, which word gets which cell, and rounds of both."""
