"""The training tasks, their verified solutions, and the trajectories made of them.

- `record`: the rows that are stored: CorpusTask, Solution, Rejection, and their closed sets.
- `grammar`, `draw`, `filters`, `quotas`: what tasks are drawn from, looked at and chosen by.
- `canonical`, `duplicates`, `leaks`, `splits`: what a task is, what repeats it, where it belongs.
- `build`, `freeze`, `release`, `linting`: the whole corpus on disk, its frozen list, its proof.
- `stored`: the files of a corpus folder, read with broken rows named.
- `workers`, `desk`: processes for many orders, and what one of them needs for a task.
- `solving`, `checking`: verified solutions, and stored kernels judged again.
- `making`, `trajectories`, `publishing`: conversations made, logged, and chosen for training.
- `faults`, `repairing`, `speeding`, `short`, `sampling`, `choosing`: where conversations come from.
- `chat`, `chat_lint`, `telling`: the form of a row, what is wrong with one, what is said in it.
"""
