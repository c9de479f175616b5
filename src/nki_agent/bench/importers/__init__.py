"""Reads others' suites and writes them as folders of tasks in our forms.

Law: nothing of a suite runs in the user's process, and one bad file never stops the rest.
"""
