"""The training tasks, their verified solutions, and the trajectories made of them.

- `record`: the rows that are stored: CorpusTask, Solution, Rejection, and their closed sets.
"""
