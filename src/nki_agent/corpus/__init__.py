"""The training tasks, their verified solutions, and the trajectories made of them.

- `record`: the rows that are stored: CorpusTask, Solution, Rejection, and their closed sets.
- `grammar`, `draw`, `filters`, `quotas`: what tasks are drawn from, looked at and chosen by.
- `canonical`, `duplicates`, `leaks`, `splits`: what a task is, what repeats it, where it belongs.
- `build`, `freeze`, `release`, `linting`: the whole corpus on disk, its frozen list, its proof.
"""
