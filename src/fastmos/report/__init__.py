"""Everything that becomes a page: the report, a table, a contact sheet."""
