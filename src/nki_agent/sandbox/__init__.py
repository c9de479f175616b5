"""Runs untrusted source: warmed processes without network, files or data, which hand back bytes."""
