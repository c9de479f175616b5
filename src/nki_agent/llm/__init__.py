"""Talks to models; the only room that may open a socket to one."""
