"""Result files to tables, pages and figures."""
